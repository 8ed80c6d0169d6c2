/* Configs from texts inside a test, and what the loader remarked about them. */
#ifndef VT_TESTS_CONFIG_TEXT_H
#define VT_TESTS_CONFIG_TEXT_H

#include "engine/model/config.h"

/* The remarks of the last text that was read. */
extern vt_warnings vt_test_remarks;

/* NULL or "" for a file that is not there. The result is to be freed; a text that is refused fails the test. */
vt_config vt_test_config(const char *config, const char *preprocessor, const char *open_clip);

/* Reads and fails the test unless the text is refused, with `file` and `names` in the message. The others as above. */
void vt_test_config_refused(const char *config, const char *preprocessor, const char *open_clip, const char *file,
                            const char *names);

bool vt_test_remarked(const char *part);

#endif
