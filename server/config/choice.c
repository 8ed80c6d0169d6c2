/* Values of settings that hold several things: [NAME=]DIR[?image_size=N|HxW] of --model, and HOST:PORT of --listen. What
 * cannot be taken apart is refused with the whole value and how it is spelled. Any thread. */
#include "server/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes "?KEY=VALUE" off the end of text; NULL: there is none, as in the name of a folder with a ? in it. */
static char *cut_option(char *text)
{
    char *mark = strrchr(text, '?');
    const size_t n = mark ? strspn(mark + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    if (n == 0 || mark[1 + n] != '=')
        return NULL;
    *mark = '\0';
    return mark + 1;
}

static vt_status take_name(vts_model_choice *out, const char *value, vt_error *err)
{
    char *equal = strchr(out->dir, '='), *slash = strchr(out->dir, '/');
    if (!equal || (slash && slash < equal)) /* a folder may have a `=` in its path */
        return VT_OK;
    const size_t n = (size_t)(equal - out->dir);
    if (n == 0 || n >= sizeof out->name ||
        strspn(out->dir, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") < n)
        return vt_error_set(err, VT_E_INVALID, "model",
                            "model %s: a name has 1 to %zu letters, digits, dots, dashes and underscores", value,
                            sizeof out->name - 1);
    memcpy(out->name, out->dir, n);
    out->name[n] = '\0';
    memmove(out->dir, equal + 1, strlen(equal + 1) + 1);
    return VT_OK;
}

vt_status vts_settings_model(vts_model_choice *out, const char *value, vt_error *err)
{
    static const char size_key[] = "image_size=";
    vt_error why = {0};
    *out = (vts_model_choice){0};
    if ((size_t)snprintf(out->dir, sizeof out->dir, "%s", value) >= sizeof out->dir)
        return vt_error_set(err, VT_E_INVALID, "model", "model: a value of more than %zu bytes", sizeof out->dir - 1);
    char *option = cut_option(out->dir);
    if (option && strncmp(option, size_key, sizeof size_key - 1) != 0)
        return vt_error_set(err, VT_E_INVALID, "model",
                            "model %s: the only option behind a folder is ?image_size=", value);
    if (option && vt_image_size_parse(option + sizeof size_key - 1, &out->image_h, &out->image_w, &why) != VT_OK) {
        vt_error_set(err, VT_E_INVALID, "model", "model %s: %s", value, why.msg);
        vt_error_allow(err, "%s", why.allowed);
        return VT_E_INVALID;
    }
    const vt_status status = take_name(out, value, err);
    if (status != VT_OK)
        return status;
    if (!out->dir[0] && !option)
        return vt_error_set(err, VT_E_INVALID, "model", "model %s: no folder is given", value);
    return VT_OK;
}

vt_status vts_settings_backend(vt_model *model, int backend, int blas_threads, vt_error *err)
{
    const bool own = backend == VTS_BACKEND_AUTO && blas_threads == 1 && vt_model_can_pack();
    return own ? vt_model_pack(model, err) : VT_OK;
}

vt_status vts_settings_open_model(vt_model **out, const char *value, vt_error *err)
{
    vts_model_choice choice = {0};
    const vt_status status = value ? vts_settings_model(&choice, value, err) : VT_OK;
    if (status != VT_OK)
        return status;
    const char *dir = choice.dir[0] ? choice.dir : NULL, *name = choice.name[0] ? choice.name : NULL;
    return choice.image_h ? vt_model_open_sized(out, dir, name, choice.image_h, choice.image_w, err)
                          : vt_model_open(out, dir, name, err);
}

vt_status vts_settings_listen(const char *value, char *host, size_t host_size, unsigned *port, vt_error *err)
{
    const char *colon = strrchr(value, ':');
    char *end = NULL;
    size_t n = colon ? (size_t)(colon - value) : 0;
    const char *from = value;
    if (n >= 2 && value[0] == '[' && value[n - 1] == ']') {
        from++;
        n -= 2;
    } else if (n > 0 && memchr(value, ':', n)) {
        n = 0; /* a bare IPv6 address: is the last part of it the port? */
    }
    const unsigned long number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 65536;
    if (n == 0 || n >= host_size || number > 65535 || *end)
        return vt_error_set(err, VT_E_INVALID, "listen",
                            "listen %s: it must be HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080", value);
    memcpy(host, from, n);
    host[n] = '\0';
    *port = (unsigned)number;
    return VT_OK;
}
