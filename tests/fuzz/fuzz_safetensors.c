/* Arbitrary bytes as a weights file: opened, every tensor read; then as a whole model. No crash, no read outside, no
 * large allocation; what is accepted has consistent sizes. */
#include "tests/fuzz/read_model.h"

#include "engine/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1u << 20)
        return 0;
    vt_st_file *file = NULL;
    vt_error err = {0};
    uint8_t *copy = malloc(size + 1); /* of exactly this size, so that a sanitizer sees the end */
    fuzz_require(copy != NULL);
    memcpy(copy, data, size);
    if (vt_st_open_memory(&file, copy, size, "fuzz", &err) == VT_OK) {
        size_t total = 0;
        for (size_t i = 0; i < vt_st_count(file); i++) {
            const vt_st_tensor *tensor = vt_st_at(file, i);
            fuzz_require(vt_st_find(file, tensor->name) == tensor);
            total += tensor->bytes;
            if (!vt_st_is_float(tensor))
                continue;
            float *values = malloc(tensor->count * sizeof *values + 1);
            fuzz_require(values && vt_st_floats(tensor, values, &err) == VT_OK);
            free(values);
        }
        size_t header;
        vt_st_header(file, &header);
        fuzz_require(total + header + 8 == size);
        vt_st_close(file);
    } else {
        fuzz_require(err.status != VT_OK && *err.msg);
    }
    /* one head, so that any width will do; each card once, for the names of any library */
    static const char *const configs[] = {
        NULL,
        "{\"model_args\": {\"num_heads\": 1}}",
        "{\"model_type\": \"vit\", \"num_attention_heads\": 1}",
        "{\"model_type\": \"dinov2\", \"num_attention_heads\": 1, \"use_swiglu_ffn\": true}",
        "{\"model_type\": \"dinov2_with_registers\", \"num_attention_heads\": 1, \"num_register_tokens\": 2,"
        " \"use_swiglu_ffn\": true}",
        "{\"model_type\": \"clip\", \"projection_dim\": 3, \"vision_config\": {\"num_attention_heads\": 1}}",
        "{\"model_type\": \"clip\", \"projection_dim\": 6, \"vision_config\": {\"num_attention_heads\": 1},"
        " \"text_config\": {\"num_attention_heads\": 2, \"max_position_embeddings\": 12}}",
        "{\"model_args\": {\"num_heads\": 1}, \"pretrained_cfg\": {\"input_size\": [3, 24, 40]}}"};
    for (size_t i = 0; i < VT_COUNT(configs); i++) {
        vt_model *model = NULL;
        if (vt_model_open_memory(&model, copy, size, configs[i], NULL, NULL, &err) == VT_OK)
            fuzz_read_model(model);
        vt_model_close(model);
    }
    free(copy);
    return 0;
}
