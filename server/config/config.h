/* The settings of the service: one table, four sources. Defaults < JSON file < VITRAL_* variables < flags. */
#ifndef VTS_CONFIG_CONFIG_H
#define VTS_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vitral/model.h"
#include "vitral/param.h"
#include "vitral/status.h"

enum { VTS_MODELS_MAX = 16, VTS_WARNINGS_MAX = 8, VTS_SETTINGS_MAX = 48 };

typedef enum vts_origin { VTS_FROM_DEFAULT, VTS_FROM_FILE, VTS_FROM_VARIABLE, VTS_FROM_FLAG } vts_origin;
extern const char *const vts_origin_names[]; /* "default", "file", "variable", "flag" */

typedef struct vts_settings {
    char models[VTS_MODELS_MAX][VT_TEXT_MAX]; /* [NAME=]DIR[?image_size=N|HxW] each; none: the embedded model */
    size_t models_count;
    char listen[VT_TEXT_MAX];
    int workers, queue; /* 0: cores of the cgroup quota; 0: 4 x workers (vts_settings_settle fills them in) */
    int upload_max_bytes, pixels_max, deadline_ms, upload_timeout_ms, drain_timeout_ms;
    double max_cost;
    int image_side_max;
    uint64_t uploads_max_bytes, cache_bytes, held_bytes, memory_max_bytes, image_size_max_bytes;
    int held_seconds, backend, bf16, blas_threads, arena_keep_bytes;
    int connections_max, connections_per_ip_max, connection_timeout_s;
    int client_requests_per_minute, client_requests_at_once, sandbox;
    char tls_cert_file[VT_TEXT_MAX], tls_key_file[VT_TEXT_MAX];
    char token_file[VT_TEXT_MAX], cors_origins[VT_TEXT_MAX], log[VT_TEXT_MAX], config[VT_TEXT_MAX];
    char trusted_proxies[VT_TEXT_MAX], audit_log[VT_TEXT_MAX];

    unsigned char origins[VTS_SETTINGS_MAX]; /* vts_origin of each row of the table */
    char warnings[VTS_WARNINGS_MAX][256];    /* unknown VITRAL_* variables */
    size_t warnings_count;
    bool want_help, want_version;
} vts_settings;

enum { VTS_BACKEND_AUTO, VTS_BACKEND_OPENBLAS };                 /* of vts_settings.backend */
enum { VTS_SANDBOX_AUTO, VTS_SANDBOX_REQUIRE, VTS_SANDBOX_OFF }; /* of vts_settings.sandbox */
enum { VTS_BF16_AUTO, VTS_BF16_ON, VTS_BF16_OFF }; /* of vts_settings.bf16; after settling one of the last two */

const vt_param *vts_settings_table(size_t *count);

/* Reads all sources. env: "NAME=value" texts, ends with NULL (may be NULL). An unknown key or flag is refused with the
 * nearest name, a bad value with what would be allowed; an unknown VITRAL_* variable is a warning. The struct is large:
 * keep it off small stacks. */
VT_MUST_USE vt_status vts_settings_read(vts_settings *out, int argc, char *const argv[], char *const env[],
                                        vt_error *err);

/* Fills in what follows from other settings and from the machine (root: "" but in tests), and refuses what does not go
 * together. */
VT_MUST_USE vt_status vts_settings_settle(vts_settings *settings, const char *root, vt_error *err);

/* "--queue INT   jobs that may wait …" for each row. */
void vts_settings_help(FILE *out);

/* Value of a row as text, "***" for a secret; a repeated one joined by ", ". */
void vts_settings_text(const vts_settings *settings, size_t row, char *buf, size_t size);

/* One --model value, [NAME=]DIR[?image_size=N|HxW], taken apart. */
typedef struct vts_model_choice {
    char name[64];           /* "" = the folder's */
    char dir[VT_TEXT_MAX];   /* "" = the embedded model: ?image_size=N without a folder */
    size_t image_h, image_w; /* 0 = the model's own */
} vts_model_choice;
VT_MUST_USE vt_status vts_settings_model(vts_model_choice *out, const char *value, vt_error *err);

/* Opens what such a value names; NULL: the embedded model. The caller closes it. */
VT_MUST_USE vt_status vts_settings_open_model(vt_model **out, const char *value, vt_error *err);

/* Packs the weights of a model that was just opened, where the setting and the CPU say so. VT_E_NOMEM. */
VT_MUST_USE vt_status vts_settings_backend(vt_model *model, int backend, int blas_threads, vt_error *err);

/* HOST and PORT of --listen; "[::1]:8080" has its brackets taken off. */
VT_MUST_USE vt_status vts_settings_listen(const char *value, char *host, size_t host_size, unsigned *port,
                                          vt_error *err);

/* Cores that this process may use: the smaller of its affinity and the cgroup quota (v2 and v1), at least 1. root stands
 * before /proc and /sys. */
int vts_cores(const char *root);

/* Starts this program again with better OpenBLAS kernels where OpenBLAS chose badly; returns when there is nothing to
 * gain or it cannot be done. The first call of main(), before any thread or file. */
void vts_restart_for_blas(char **argv);

#endif
