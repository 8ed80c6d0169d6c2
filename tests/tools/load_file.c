/* load_file FILE: opens a safetensors file and prints "name v0 v1 ..." for each float tensor. Exit status 0: accepted;
 * 1: refused, with the reason on stderr. Tensors of whole numbers are skipped, as the loader of models does it; a type
 * that is not read and a value that is not finite are refused. Driven by the reference data's run_cases.py --loader. */
#include "engine/model/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static vt_status print_tensor(const vt_st_tensor *tensor, vt_error *err)
{
    char shown[VT_ST_SHOWN];
    float *values = malloc(tensor->count < SIZE_MAX / 4 ? tensor->count * sizeof *values + 1 : SIZE_MAX);
    if (!values)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu values", tensor->count);
    vt_status status = vt_st_floats(tensor, values, err);
    for (size_t i = 0; status == VT_OK && i < tensor->count; i++)
        if (!isfinite(values[i]))
            status = vt_error_set(err, VT_E_BAD_MODEL, "", "tensor \"%s\" holds a NaN or an infinity",
                                  vt_st_shown(shown, tensor->name));
    if (status == VT_OK) {
        printf("%s", tensor->name);
        for (size_t i = 0; i < tensor->count; i++)
            printf(" %.9g", (double)values[i]);
        printf("\n");
    }
    free(values);
    return status;
}

int main(int argc, char **argv)
{
    vt_error err = {0};
    vt_st_file *file;
    if (argc != 2) {
        fprintf(stderr, "usage: load_file FILE\n");
        return 2;
    }
    vt_status status = vt_st_open(&file, argv[1], argv[1], &err);
    if (status == VT_OK) {
        for (size_t i = 0; status == VT_OK && i < vt_st_count(file); i++)
            if (!vt_st_is_integer(vt_st_at(file, i)))
                status = print_tensor(vt_st_at(file, i), &err);
        vt_st_close(file);
    }
    if (status != VT_OK)
        fprintf(stderr, "%s\n", err.msg);
    return status == VT_OK ? 0 : 1;
}
