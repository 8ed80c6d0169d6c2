/* Configs from texts. The files are passed with a size and without their NUL behind it, as they come from a disk. */
#include "tests/support/config_text.h"

#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

vt_warnings vt_test_remarks;

/* A copy that ends where the text ends, so that a sanitizer sees whoever reads on. */
static vt_config_file copied(const char *text)
{
    vt_config_file file = {NULL, 0};
    if (!text || !*text)
        return file;
    file.size = strlen(text);
    char *copy = malloc(file.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, file.size);
    file.text = copy;
    return file;
}

static vt_status parse(vt_config *config, const char *own, const char *preprocessor, const char *open_clip,
                       vt_error *err)
{
    const vt_config_files files = {.config = copied(own),
                                   .preprocessor = copied(preprocessor),
                                   .open_clip = copied(open_clip),
                                   .origin = open_clip ? VT_FROM_OPEN_CLIP : VT_FROM_TIMM};
    vt_warnings_free(&vt_test_remarks);
    const vt_status status = vt_config_parse(config, &files, &vt_test_remarks, err);
    free((char *)(uintptr_t)files.config.text);
    free((char *)(uintptr_t)files.preprocessor.text);
    free((char *)(uintptr_t)files.open_clip.text);
    return status;
}

vt_config vt_test_config(const char *own, const char *preprocessor, const char *open_clip)
{
    vt_config config;
    vt_error err = {0};
    ck_assert_msg(parse(&config, own, preprocessor, open_clip, &err) == VT_OK, "%s", err.msg);
    return config;
}

void vt_test_config_refused(const char *own, const char *preprocessor, const char *open_clip, const char *file,
                            const char *names)
{
    vt_config config = {.classes = 77};
    vt_error err = {0};
    const char *text = open_clip ? open_clip : preprocessor ? preprocessor : own;
    ck_assert_msg(parse(&config, own, preprocessor, open_clip, &err) == VT_E_BAD_MODEL, "accepted: %s", text);
    ck_assert_msg(strncmp(err.msg, file, strlen(file)) == 0, "%s: not %s, but: %s", text, file, err.msg);
    ck_assert_msg(strstr(err.msg, names) != NULL, "%s: no '%s' in: %s", text, names, err.msg);
    ck_assert_int_eq(config.classes, 77);
}

bool vt_test_remarked(const char *part)
{
    for (size_t i = 0; i < vt_test_remarks.count; i++)
        if (strstr(vt_test_remarks.texts[i], part))
            return true;
    return false;
}
