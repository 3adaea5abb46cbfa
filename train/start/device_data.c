#include "train/start/device_data.h"

#include <assert.h>

Tensor device_data_of(const Training *t, Tensor host) {
    if (t->spec.device->host_memory || !tensor_given(host)) return host;
    for (int i = 0; i < t->n_device_data; i++)
        if (t->device_data[i].host == host.data) host.data = t->device_data[i].device;
    return host;
}

void device_data_add(Training *t, const Dataset *dataset) {
    Device *device = t->spec.device;
    Tensor host = dataset ? dataset->device_data : tensor_none();
    size_t bytes = tensor_given(host) ? tensor_bytes(host) : 0;
    if (!bytes || device_data_of(t, host).data != host.data || device->host_memory) return;
    assert(t->n_device_data < TRAIN_MAX_DEVICE_DATA);
    void *memory = device->allocate(device, bytes);
    device->upload(device, memory, host.data, bytes);
    t->device_data[t->n_device_data++] = (DeviceData){host.data, memory, bytes};
}

void device_data_release(Training *t, int from) {
    while (t->n_device_data > from) {
        const DeviceData *last = &t->device_data[--t->n_device_data];
        t->spec.device->release(t->spec.device, last->device, last->bytes);
    }
}
