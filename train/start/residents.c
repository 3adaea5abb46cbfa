#include "train/start/residents.h"

#include <assert.h>

Tensor resident_on_device(const Training *t, Tensor host) {
    if (t->spec.device->host_memory || !tensor_given(host)) return host;
    for (int i = 0; i < t->n_residents; i++)
        if (t->residents[i].host == host.data) host.data = t->residents[i].device;
    return host;
}

void residents_add(Training *t, const Dataset *dataset) {
    Device *device = t->spec.device;
    Tensor host = dataset ? dataset->resident : tensor_none();
    size_t bytes = tensor_given(host) ? tensor_bytes(host) : 0;
    if (!bytes || resident_on_device(t, host).data != host.data || device->host_memory) return;
    assert(t->n_residents < TRAIN_MAX_RESIDENTS);
    void *memory = device->allocate(device, bytes);
    device->upload(device, memory, host.data, bytes);
    t->residents[t->n_residents++] = (Resident){host.data, memory, bytes};
}

void residents_release(Training *t, int from) {
    while (t->n_residents > from) {
        const Resident *last = &t->residents[--t->n_residents];
        t->spec.device->release(t->spec.device, last->device, last->bytes);
    }
}
