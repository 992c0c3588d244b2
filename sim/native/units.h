/* The units: command fetch and processor, DMA, input load, weight decoder, MAC array, output unit and write-back. They stand on the ports. */
#ifndef UNITS_H
#define UNITS_H

#include "ports.h"

void run_unit(Machine *machine, int unit);
void weights_arrived(Machine *machine);
void scales_arrived(Machine *machine);
void ifm_arrived(Machine *machine, int port);
void responded(Machine *machine, int port);

#endif
