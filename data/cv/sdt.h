/* Reads an image of photon counts from a Becker & Hickl .sdt file.
 *
 * All numbers are little-endian and packed. Offsets are from the beginning of the file:
 *   file header (42 bytes): u16 revision @0 | i32 offset of the first data block's header @14 | u16 number of data
 *     blocks @18 (0x7fff: u32 @34) | i32 offset of the measurement descriptions @24 | i16 their number @28 and length
 *     @30 | u16 0x5555 if valid @32
 *   measurement description: u16 adc_re (time bins; 0: 65536) @82 | i32 scan_x, scan_y @173, 177 | i32 image_x, image_y
 * @309, 313 data block header (22 bytes): u32 offset of the data @2 | u32 offset of the next header @6 | u16 type @10 |
 * i16 measurement description @12 | u32 length without compression, in bytes @18 type: bits 4-7 contents (0 decay, 1
 * page, 6 FIFO image are photon counts) | bits 8-11 numbers (0 u16, 1 u32, 2 double) | bit 12: the data are a zip
 * archive with one file The counts are [y, x, bin]. */
#pragma once

#include "base/base.h"

/* Converts the only data block to values [H, W, T]; dims: H, W, T. free(*values), which is NULL after an error. Refuses
 * files of several blocks, such as several detector channels. */
bool sdt_read(const void *bytes, size_t size, int64_t dims[3], double **values, Error *error);
