/* The programs as the linker left them, the unit as systemd sees it, the bill of materials, and SECURITY.md: a test that it
 * names must exist. Tools that are missing (readelf, systemd-analyze) are said and passed over. */
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool missing(const char *tool)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", tool);
    if (system(command) == 0)
        return false;
    printf("skip: %s not found\n", tool);
    return true;
}

static const char *build(void)
{
    const char *folder = getenv("VITRAL_BUILD");
    return folder && *folder ? folder : "build";
}

/* All that a command prints; to be freed. */
static char *output_of(const char *command)
{
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    FILE *pipe = popen(command, "r");
    ck_assert(text && pipe);
    for (size_t n; (n = fread(text + size, 1, room - 1 - size, pipe)) > 0;) {
        size += n;
        if (size + 1 == room)
            ck_assert_ptr_nonnull(text = realloc(text, room *= 2));
    }
    text[size] = '\0';
    ck_assert_msg(pclose(pipe) == 0, "%s failed: %s", command, text);
    return text;
}

/* What does not change with the variant is looked at once. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool again = true;
#else
static const bool again = false;
#endif

static const char *const programs[] = {"vitrald", "vitral"};

START_TEST(programs_are_hardened)
{
    static const char *const must[] = {
        "DYN (Position-Independent Executable file)",
        "GNU_RELRO",
        "BIND_NOW",
        "NOW PIE",
        "__stack_chk_fail",
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        "__memcpy_chk",
        "__snprintf_chk",
#endif
        " GNU_STACK "
    };
    static const char *const never[] = {"(RPATH)", "(RUNPATH)", "TEXTREL", " RWE "};
    char command[1024];
    if (missing("readelf"))
        return;
    snprintf(command, sizeof command, "readelf -W -h -l -d -n --dyn-syms %s/%s", build(), programs[_i]);
    char *text = output_of(command);
    for (size_t k = 0; k < VT_COUNT(must); k++)
        ck_assert_msg(strstr(text, must[k]) != NULL, "%s lacks %s", programs[_i], must[k]);
    for (size_t k = 0; k < VT_COUNT(never); k++)
        ck_assert_msg(strstr(text, never[k]) == NULL, "%s has %s", programs[_i], never[k]);
    free(text);
#if defined(                                                                                                           \
    __CET__) /* the marks themselves: whether the whole is said to have them is up to the C library's start files */
    snprintf(command, sizeof command, "objdump -d --disassemble=main %s/%s", build(), programs[_i]);
    text = output_of(command);
    ck_assert_msg(strstr(text, "endbr64") != NULL, "%s: main begins without endbr64", programs[_i]);
    free(text);
#endif
}
END_TEST

/* The figure that SECURITY.md names, in tenths. */
START_TEST(the_unit_is_closed)
{
    if (again || missing("systemd-analyze"))
        return;
    if (system("systemd-analyze security --help 2>/dev/null | grep -q -e --offline") != 0) {
        printf("skip: this systemd-analyze knows no --offline\n");
        return;
    }
    vt_test_shell(
        "systemd-analyze security --offline=true --threshold=12 --no-pager deploy/vitrald.service >/dev/null 2>&1");
}
END_TEST

START_TEST(the_bill_of_materials_is_whole)
{
    char command[1024];
    if (again || missing("readelf") || missing("dpkg-query"))
        return;
    snprintf(command, sizeof command, "SOURCE_DATE_EPOCH=1000000000 deploy/sbom.sh %s", build());
    char *text = output_of(command);
    json_error_t fault;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "line %d: %s", fault.line, fault.text);
    ck_assert_str_eq(json_string_value(json_object_get(root, "bomFormat")), "CycloneDX");
    const json_t *components = json_object_get(root, "components");
    const json_t *needed = json_object_get(json_array_get(json_object_get(root, "dependencies"), 0), "dependsOn");
    ck_assert_uint_ge(json_array_size(needed), 8);
    for (size_t k = 0; k < json_array_size(needed); k++) {
        const char *ref = json_string_value(json_array_get(needed, k));
        const json_t *found = NULL;
        for (size_t j = 0; j < json_array_size(components); j++)
            if (strcmp(json_string_value(json_object_get(json_array_get(components, j), "bom-ref")), ref) == 0)
                found = json_array_get(components, j);
        ck_assert_msg(found != NULL, "%s is not among the components", ref);
        ck_assert_msg(json_is_string(json_object_get(found, "version")), "%s has no version", ref);
    }
    ck_assert_msg(strstr(text, "pkg:deb/") && strstr(text, "libmicrohttpd.so"), "%s", text);
    ck_assert_msg(strstr(text, "2001-09-09T01:46:40Z") != NULL, "the time is not that of SOURCE_DATE_EPOCH");
    json_decref(root);
    free(text);
}
END_TEST

/* `check_FILE/TEST` or `fuzz_FILE`. */
START_TEST(every_named_test_exists)
{
    size_t size = 0, count = 0;
    char *text = (char *)vt_test_read("SECURITY.md", &size), *at = text;
    ck_assert_ptr_nonnull(text);
    for (; (at = strchr(at, '`')) != NULL; at++) {
        char file[64], test[96];
        if (sscanf(at, "`check_%63[a-z0-9_]/%95[a-z0-9_]`", file, test) == 2)
            vt_test_shell(
                "grep -q 'START_TEST(%s)' tests/*/check_%s.c || { echo 'SECURITY.md: no test check_%s/%s'; exit 1; }",
                test, file, file, test);
        else if (sscanf(at, "`fuzz_%63[a-z0-9_]`", file) == 1)
            vt_test_shell("[ -f tests/fuzz/fuzz_%s.c ] || { echo 'SECURITY.md: no fuzz_%s'; exit 1; }", file, file);
        else
            continue;
        count++;
    }
    ck_assert_uint_ge(count, 30);
    free(text);
}
END_TEST

VT_SUITE("hardening", tcase_set_timeout(tc, 60.0);
         tcase_add_loop_test(tc, programs_are_hardened, 0, (int)VT_COUNT(programs));
         tcase_add_test(tc, the_unit_is_closed); tcase_add_test(tc, the_bill_of_materials_is_whole);
         tcase_add_test(tc, every_named_test_exists))
