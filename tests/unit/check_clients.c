/* What one client may ask for, with a clock of the test's own. */
#include "server/http/clients.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static vts_clients *clients;
static const int64_t second = 1000000000;

static void with(unsigned per_minute, unsigned at_once)
{
    vt_error err = {0};
    ck_assert_int_eq(vts_clients_open(&clients, per_minute, at_once, &err), VT_OK);
}

static void tear_down(void)
{
    vts_clients_close(clients);
    clients = NULL;
}

static vts_address address(const char *text)
{
    vts_address a;
    ck_assert(vts_address_parse(&a, text, strlen(text)));
    return a;
}

static vts_allowance enter(const char *name, const char *from, int64_t now, unsigned *wait)
{
    const vts_address a = address(from);
    vts_client *place;
    unsigned seconds;
    const vts_allowance answer = vts_clients_enter(clients, name, &a, false, now, &place, wait ? wait : &seconds);
    ck_assert_ptr_null(place);
    return answer;
}

START_TEST(a_minute_at_once_then_evenly)
{
    unsigned wait = 0;
    const int64_t start = 1000 * second;
    with(6, 0);
    for (int k = 0; k < 6; k++)
        ck_assert_int_eq(enter("a", "::1", start, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("a", "::1", start, &wait), VTS_TOO_OFTEN);
    ck_assert_uint_eq(wait, 10);
    ck_assert_int_eq(enter("a", "::1", start + 10 * second - 1, &wait), VTS_TOO_OFTEN);
    ck_assert_uint_eq(wait, 1);
    ck_assert_int_eq(enter("a", "::1", start + 10 * second, NULL), VTS_ALLOWED); /* refusals have cost nothing */
    ck_assert_int_eq(enter("a", "::1", start + 10 * second, NULL), VTS_TOO_OFTEN);
    int count = 0;
    while (enter("a", "::1", start + 600 * second, NULL) == VTS_ALLOWED)
        count++;
    ck_assert_int_eq(count, 6); /* rest does not add up beyond a minute */
}
END_TEST

START_TEST(a_name_is_one_client_wherever_it_comes_from)
{
    with(1, 0);
    ck_assert_int_eq(enter("a", "192.0.2.1", second, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("a", "192.0.2.2", second, NULL), VTS_TOO_OFTEN);
    ck_assert_int_eq(enter("b", "192.0.2.1", second, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("", "192.0.2.1", second, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("", "192.0.2.1", second, NULL), VTS_TOO_OFTEN);
    ck_assert_int_eq(enter("", "192.0.2.2", second, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("", "2001:db8::1", second, NULL), VTS_ALLOWED);
    ck_assert_int_eq(enter("", "2001:db8::ffff:2", second, NULL), VTS_TOO_OFTEN); /* the same /64 */
    ck_assert_int_eq(enter("", "2001:db8:0:1::1", second, NULL), VTS_ALLOWED);
}
END_TEST

START_TEST(places_come_back)
{
    const vts_address a = address("192.0.2.1"), b = address("192.0.2.2");
    vts_client *places[3], *other;
    unsigned wait = 0;
    with(0, 2);
    ck_assert_uint_eq(vts_clients_at_once(clients), 2);
    ck_assert_int_eq(vts_clients_enter(clients, "", &a, true, 1, &places[0], &wait), VTS_ALLOWED);
    ck_assert_int_eq(vts_clients_enter(clients, "", &a, true, 1, &places[1], &wait), VTS_ALLOWED);
    ck_assert_int_eq(vts_clients_enter(clients, "", &a, true, 1, &places[2], &wait), VTS_TOO_MANY);
    ck_assert(!places[2] && wait >= 1);
    ck_assert_int_eq(vts_clients_enter(clients, "", &a, false, 1, &places[2], &wait), VTS_ALLOWED); /* not work */
    ck_assert_int_eq(vts_clients_enter(clients, "", &b, true, 1, &other, &wait), VTS_ALLOWED);
    vts_clients_leave(places[0]);
    ck_assert_int_eq(vts_clients_enter(clients, "", &a, true, 1, &places[0], &wait), VTS_ALLOWED);
    vts_clients_leave(places[0]), vts_clients_leave(places[1]), vts_clients_leave(other), vts_clients_leave(NULL);
}
END_TEST

/* Many more clients than there are places in the table: none is shut out, and none with work is forgotten. */
START_TEST(a_flood_of_addresses_shuts_nobody_out)
{
    const vts_address mine = address("192.0.2.1");
    vts_client *place, *again;
    char text[32];
    unsigned wait;
    with(1, 1);
    ck_assert_int_eq(vts_clients_enter(clients, "", &mine, true, second, &place, &wait), VTS_ALLOWED);
    for (unsigned k = 0; k < 20000; k++) {
        snprintf(text, sizeof text, "10.0.%u.%u", k >> 8, k & 255);
        ck_assert_int_eq(enter("", text, second + k, NULL), VTS_ALLOWED);
    }
    ck_assert_int_eq(vts_clients_enter(clients, "", &mine, true, second, &again, &wait), VTS_TOO_MANY);
    vts_clients_leave(place);
}
END_TEST

START_TEST(no_limit_is_none)
{
    with(0, 0);
    for (int k = 0; k < 1000; k++)
        ck_assert_int_eq(enter("a", "::1", 1, NULL), VTS_ALLOWED);
}
END_TEST

VT_SUITE("clients", tcase_add_checked_fixture(tc, NULL, tear_down); tcase_add_test(tc, a_minute_at_once_then_evenly);
         tcase_add_test(tc, a_name_is_one_client_wherever_it_comes_from); tcase_add_test(tc, places_come_back);
         tcase_add_test(tc, a_flood_of_addresses_shuts_nobody_out); tcase_add_test(tc, no_limit_is_none))
