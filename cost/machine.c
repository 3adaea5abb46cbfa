#include "cost/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "kernels/device_open.h"

static const double pcie_share = 0.8; /* of a copy from pinned memory: assumed */

NumberType machine_numbers(const Machine *m) {
    return m->half != DTYPE_F32 ? NUMBERS_16_BITS : m->tf32 && m->card->tf32 > 0 ? NUMBERS_TF32 : NUMBERS_F32;
}

double machine_peak_flops(const Machine *m) {
    const double rates[NUMBER_TYPES] = {m->card->f32, m->card->tf32, m->card->half};
    return rates[machine_numbers(m)];
}

double machine_copy_rate(const Machine *m) {
    if (!m->rates) return pcie_share * m->card->pcie;
    return m->rates->copy > 0 ? m->rates->copy : INFINITY;
}

static Machine machine_of(const Card *card, const Rates *rates, const MachineOptions *o) {
    return (Machine){.card = card,
                     .half = o->amp ? card_half(card) : DTYPE_F32,
                     .tf32 = !o->no_tf32,
                     .workers = o->workers,
                     .rates = rates,
                     .available = card_available(card)};
}

/* Returns the measured rates of a device. NULL with an empty error if there are none, with a reason if the file is
 * damaged. */
static const Rates *measured_rates(const MachineOptions *o, const char *device, Error *error) {
    Rates rates;
    error->text[0] = 0;
    if (rates_are_none(o->calibration)) return NULL;
    if (!rates_read(o->calibration, device, &rates, error)) return NULL;
    return xkeep(&rates, sizeof rates);
}

/* Makes a card of measured rates, for a device whose data sheet is not known. */
static const Card *card_of_rates(const Rates *r) {
    Card card = {.name = r->device,
                 .key = r->device,
                 .capability = r->half == DTYPE_BF16  ? 80
                               : r->half == DTYPE_F16 ? 75
                                                      : 0,
                 .f32 = rates_best(r, NUMBERS_F32),
                 .tf32 = rates_best(r, NUMBERS_TF32),
                 .half = rates_best(r, NUMBERS_16_BITS),
                 .bandwidth = r->bytes.rate[r->bytes.n - 1],
                 .memory = r->memory,
                 .of_tensor = 1,
                 .of_f32 = 1,
                 .of_bandwidth = 1,
                 .launch = r->launch};
    return xkeep(&card, sizeof card);
}

/* machine_of_device with the reason in the error. */
static bool find_machine(const Device *device, const MachineOptions *o, Machine *machine, Error *error) {
    char name[128];
    rates_device_name(device, name);
    const Rates *rates = measured_rates(o, name, error);
    const Card *card = device->product[0] ? card_find(device->product) : NULL;
    if (!card && rates) card = card_of_rates(rates);
    if (card) *machine = machine_of(card, rates, o);
    return card != NULL;
}

bool machine_of_device(const Device *device, const MachineOptions *o, Machine *machine) {
    Error error;
    bool known = find_machine(device, o, machine, &error);
    if (error.text[0]) warn("%s", error.text);
    return known;
}

/* Sets the memory that a run has here at this moment: containers and shells may limit it. */
static void set_host_memory(Machine *machine, const Device *device) {
    HostMemory host = host_memory_left();
    machine->available = host.bytes > device->headroom ? (double)(host.bytes - device->headroom) : 0;
    if (*host.limit) machine->limit = xkeep(host.limit, strlen(host.limit) + 1);
}

static Machine machine_here(const MachineOptions *o) {
    const char *why;
    Machine machine;
    Error error;
    Device *device = device_open(o->device, o->threads, o->no_tf32, &why);
    bool known = find_machine(device, o, &machine, &error);
    if (error.text[0]) die("%s", error.text);
    if (!known) {
        char name[128], threads[32] = "";
        rates_device_name(device, name);
        if (o->threads) snprintf(threads, sizeof threads, " --threads %d", o->threads);
        die_usage("--gpu here: nothing is known of this machine's %s: measure it once with --calibrate%s%s%s%s%s", name,
                  strcmp(o->device, "auto") ? " --device " : "", strcmp(o->device, "auto") ? o->device : "", threads,
                  o->calibration ? " --calibration " : "", o->calibration ? o->calibration : "");
    }
    if (device->host_memory) set_host_memory(&machine, device);
    device_close(device);
    return machine;
}

static _Noreturn void die_unknown(const char *name, const Card *table, int n) {
    char known[512] = "here all";
    const char *keys[64] = {"here", "all"}, *near;
    for (int i = 0; i < n; i++) {
        keys[i + 2] = table[i].key;
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", table[i].key);
    }
    near = nearest_name(name, keys, n + 2);
    die_usage(
        "--gpu %s: this card is not known%s%s%s Give one of: %s. A card of another name is known as 'here' on its "
        "own machine, once --calibrate has measured it",
        name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ".", known);
}

/* Fills rates[] with the measured rates of the cards of the table; NULL for those that the file does not have. */
static void rates_of_cards(const MachineOptions *o, const Card *table, const Rates **rates) {
    enum { MOST = 256 };
    OWNED char(*names)[128] = xcalloc(MOST, sizeof *names);
    Error error;
    bool none = rates_are_none(o->calibration);
    int n = none ? 0 : rates_devices(o->calibration, names, MOST, &error);
    if (n < 0) die("%s", error.text);
    if (!n && o->calibration && !none && access(o->calibration, F_OK))
        die_usage("--calibration %s: there is no such file; --calibrate writes it", o->calibration);
    for (int i = 0; i < n; i++) {
        const Card *card = card_find(names[i]);
        if (!card || rates[card - table]) continue;
        const Rates *found = measured_rates(o, names[i], &error);
        if (found && found->copy > 0) rates[card - table] = found; /* else a CPU: there is an "AMD A10-7850K" */
        if (!found) die("%s", error.text);
    }
}

Machine *machines_named(const MachineOptions *o, int *n) {
    int n_cards;
    const Card *table = card_table(&n_cards), *one = card_of_key(o->gpu);
    bool here = !strcmp(o->gpu, "here"), all = !strcmp(o->gpu, "all");
    if (!here && !all && !one) die_unknown(o->gpu, table, n_cards);
    OWNED const Rates **rates = xcalloc((size_t)n_cards, sizeof *rates);
    Machine *machines = xcalloc((size_t)n_cards, sizeof *machines);
    if (!here) rates_of_cards(o, table, rates);
    *n = all ? n_cards : 1;
    if (here) machines[0] = machine_here(o);
    if (one) machines[0] = machine_of(one, rates[one - table], o);
    for (int i = 0; i < n_cards && all; i++) machines[i] = machine_of(&table[i], rates[i], o);
    return machines;
}
