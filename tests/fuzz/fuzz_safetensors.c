/* Arbitrary bytes as a weights file: opened, every tensor read; then as a whole model. No crash, no read outside, no
 * large allocation; what is accepted has consistent sizes. */
#include "engine/model/model.h"
#include "engine/model/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1u << 20)
        return 0;
    vt_st_file *file = NULL;
    vt_error err = {0};
    uint8_t *copy = malloc(size + 1); /* of exactly this size, so that a sanitizer sees the end */
    require(copy != NULL);
    memcpy(copy, data, size);
    if (vt_st_open_memory(&file, copy, size, "fuzz", &err) == VT_OK) {
        size_t total = 0;
        for (size_t i = 0; i < vt_st_count(file); i++) {
            const vt_st_tensor *tensor = vt_st_at(file, i);
            require(vt_st_find(file, tensor->name) == tensor);
            total += tensor->bytes;
            if (!vt_st_is_float(tensor))
                continue;
            float *values = malloc(tensor->count * sizeof *values + 1);
            require(values && vt_st_floats(tensor, values, &err) == VT_OK);
            free(values);
        }
        size_t header;
        vt_st_header(file, &header);
        require(total + header + 8 == size);
        vt_st_close(file);
    } else {
        require(err.status != VT_OK && *err.msg);
    }
    /* one head, so that any width will do */
    static const char config[] = "{\"model_args\": {\"num_heads\": 1}}";
    vt_model *model = NULL;
    if (vt_model_open_memory(&model, copy, size, config, NULL, NULL, &err) == VT_OK)
        require(vt_model_get_info(model)->tokens > 0 && vt_model_get_info(model)->width > 0);
    vt_model_close(model);
    free(copy);
    return 0;
}
