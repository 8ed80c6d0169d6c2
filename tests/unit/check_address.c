/* Addresses, networks, and who is behind a chain of proxies. */
#include "server/http/address.h"
#include "tests/support/suite.h"

#include <string.h>

static const struct {
    const char *text, *shown; /* shown NULL: no address */
} addresses[] = {
    {"192.0.2.7", "192.0.2.7"},
    {"192.0.2.7:8080", "192.0.2.7"},
    {"::1", "::1"},
    {"[2001:db8::1]", "2001:db8::1"},
    {"[2001:db8::1]:443", "2001:db8::1"},
    {"::ffff:192.0.2.7", "192.0.2.7"},
    {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
    {"", NULL},
    {"unknown", NULL},
    {"192.0.2", NULL},
    {"192.0.2.256", NULL},
    {"192.0.2.7 ", NULL},
    {"[2001:db8::1", NULL},
    {"[]", NULL},
    {"_hidden", NULL},
    {"1:2:3:4:5:6:7:8:9", NULL},
    {"2001:db8:1111:2222:3333:4444:5555:6666:7777:8888:9999", NULL},
};

START_TEST(text_and_back)
{
    vts_address a;
    char shown[VTS_ADDRESS_TEXT];
    const bool ok = vts_address_parse(&a, addresses[_i].text, strlen(addresses[_i].text));
    ck_assert_msg(ok == (addresses[_i].shown != NULL), "%s", addresses[_i].text);
    if (!ok)
        return;
    vts_address_text(&a, shown);
    ck_assert_str_eq(shown, addresses[_i].shown);
}
END_TEST

static bool have(const vts_networks *n, const char *text)
{
    vts_address a;
    ck_assert(vts_address_parse(&a, text, strlen(text)));
    return vts_networks_have(n, &a);
}

START_TEST(networks_end_where_their_bits_do)
{
    vts_networks n;
    vt_error err = {0};
    ck_assert_int_eq(vts_networks_read(&n, "10.0.0.0/8, 192.0.2.4/30,198.51.100.9 fd00::/7, 2001:db8::/33", &err),
                     VT_OK);
    ck_assert_uint_eq(n.count, 5);
    ck_assert(have(&n, "10.255.1.2") && !have(&n, "11.0.0.0") && !have(&n, "9.255.255.255"));
    ck_assert(have(&n, "192.0.2.4") && have(&n, "192.0.2.7") && !have(&n, "192.0.2.3") && !have(&n, "192.0.2.8"));
    ck_assert(have(&n, "198.51.100.9") && !have(&n, "198.51.100.8"));
    ck_assert(have(&n, "fd12::1") && have(&n, "fc00::1") && !have(&n, "fe80::1"));
    ck_assert(have(&n, "2001:db8:7fff::1") && !have(&n, "2001:db8:8000::1"));
    ck_assert(!have(&n, "::a00:1")); /* 10.0.0.1 as a number is no IPv4 address */
    ck_assert_int_eq(vts_networks_read(&n, "0.0.0.0/0", &err), VT_OK);
    ck_assert(have(&n, "203.0.113.1") && !have(&n, "2001:db8::1"));
    ck_assert_int_eq(vts_networks_read(&n, " , ", &err), VT_OK);
    ck_assert_uint_eq(n.count, 0);
}
END_TEST

START_TEST(what_is_no_network_is_refused)
{
    static const char *const bad[] = {"proxy",        "10.0.0.0/33", "10.0.0.0/", "fd00::/129",
                                      "10.0.0.0/8/8", "10.0.0.0/x",  "/8"};
    vts_networks n;
    vt_error err = {0};
    char many[33 * 8 + 1];
    for (size_t k = 0; k < VT_COUNT(bad); k++) {
        ck_assert_msg(vts_networks_read(&n, bad[k], &err) == VT_E_INVALID, "%s", bad[k]);
        ck_assert(strcmp(err.param, "trusted_proxies") == 0 && strstr(err.msg, bad[k]));
    }
    for (size_t k = 0; k < 33; k++)
        memcpy(many + 8 * k, "9.9.9.9 ", 9);
    ck_assert_int_eq(vts_networks_read(&n, many + 8, &err), VT_OK);
    ck_assert_int_eq(vts_networks_read(&n, many, &err), VT_E_INVALID);
}
END_TEST

static const struct {
    const char *peer, *forwarded, *client;
} chains[] = {
    {"203.0.113.5", "198.51.100.1", "203.0.113.5"}, /* no proxy of ours: its word is nothing */
    {"10.0.0.1", "198.51.100.1", "198.51.100.1"},
    {"10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"}, /* what the client wrote itself */
    {"10.0.0.1", "1.1.1.1,198.51.100.1 ,\t10.0.0.2", "198.51.100.1"},
    {"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
    {"10.0.0.1", "198.51.100.1, nonsense, 10.0.0.2", "10.0.0.2"},
    {"10.0.0.1", "nonsense", "10.0.0.1"},
    {"10.0.0.1", "", "10.0.0.1"},
    {"10.0.0.1", ",", "10.0.0.1"},
    {"10.0.0.1", "[2001:db8::9]:55", "2001:db8::9"},
};

START_TEST(the_first_that_is_not_trusted_is_the_client)
{
    vts_networks n;
    vt_error err = {0};
    vts_address a;
    char shown[VTS_ADDRESS_TEXT];
    ck_assert_int_eq(vts_networks_read(&n, "10.0.0.0/8", &err), VT_OK);
    ck_assert(vts_address_parse(&a, chains[_i].peer, strlen(chains[_i].peer)));
    const bool replaced = vts_address_behind(&a, &n, chains[_i].forwarded);
    vts_address_text(&a, shown);
    ck_assert_str_eq(shown, chains[_i].client);
    ck_assert_int_eq(replaced, strcmp(chains[_i].peer, chains[_i].client) != 0);
    n.count = 0;
    ck_assert(!vts_address_behind(&a, &n, chains[_i].forwarded));
    ck_assert(!vts_address_behind(&a, &n, NULL));
}
END_TEST

VT_SUITE("address", tcase_add_loop_test(tc, text_and_back, 0, (int)VT_COUNT(addresses));
         tcase_add_test(tc, networks_end_where_their_bits_do); tcase_add_test(tc, what_is_no_network_is_refused);
         tcase_add_loop_test(tc, the_first_that_is_not_trusted_is_the_client, 0, (int)VT_COUNT(chains)))
