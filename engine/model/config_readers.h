/* The readers of each dialect, called by config.c alone. Each fills what its file says into a config that already holds
 * the defaults of `origin` and `net`. */
#ifndef VT_MODEL_CONFIG_READERS_H
#define VT_MODEL_CONFIG_READERS_H

#include "engine/model/config_json.h"

void vt_config_read_timm(vt_reader *r, const json_t *root, vt_config *config);
void vt_config_read_transformers(vt_reader *r, const json_t *root, vt_config *config);
void vt_config_read_open_clip(vt_reader *r, const json_t *root, vt_config *config);
void vt_config_read_preprocessor(vt_reader *r, const json_t *root, vt_config *config);

/* What each library assumes where nothing is said. */
void vt_config_default_timm(vt_config *config);
void vt_config_default_transformers(vt_config *config);
void vt_config_default_open_clip(vt_config *config);

/* How transformers prepares pictures for config->net where there is no preprocessor_config.json. */
void vt_config_default_preprocessor(vt_config *config);

/* Names of classes: a list, or an object from index to name. */
void vt_config_read_names(vt_reader *r, vt_part from, const char *key, vt_config *config);
/* timm's label_descriptions: an object from name to description, or a list in order; after the names. */
void vt_config_read_descriptions(vt_reader *r, vt_part from, const char *key, vt_config *config);

extern const float vt_mean_imagenet[3], vt_std_imagenet[3], vt_mean_clip[3], vt_std_clip[3];

#endif
