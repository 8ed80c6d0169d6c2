/* The colour maps, 256 shades each, worked out when a picture is drawn: there is no state to share.
 *
 * The published maps are kept as 33 knots with straight lines between them, fitted by least squares to their 256
 * colours: no channel is off by more than one level. jet is its formula (methods.md 22), gray is itself.
 * Rows of colormaps.def give names, order and defaults. Any thread. */
#include "engine/render/draw.h"

enum { KNOTS = 33 };

/* turbo (Mikhailov 2019) */
static const uint8_t turbo_knots[KNOTS][3] = {
    {49, 18, 60},   {58, 42, 116},  {64, 64, 162},  {69, 86, 199},  {71, 107, 228}, {71, 127, 247}, {67, 147, 255},
    {55, 168, 251}, {41, 187, 236}, {28, 205, 216}, {23, 220, 195}, {29, 232, 176}, {48, 242, 153}, {76, 249, 126},
    {107, 254, 99}, {138, 255, 76}, {163, 253, 60}, {184, 247, 52}, {204, 237, 52}, {222, 224, 55}, {237, 208, 58},
    {248, 192, 58}, {253, 174, 53}, {254, 152, 44}, {252, 128, 34}, {245, 104, 23}, {236, 82, 14},  {225, 64, 9},
    {210, 49, 5},   {193, 35, 2},   {172, 23, 1},   {149, 12, 1},   {122, 4, 3}};

/* viridis, inferno, magma (Smith and van der Walt 2015) */
static const uint8_t viridis_knots[KNOTS][3] = {
    {68, 1, 84},    {71, 13, 96},   {72, 24, 106},  {72, 35, 116},  {71, 45, 123},  {69, 54, 129},  {66, 64, 134},
    {63, 73, 137},  {59, 82, 139},  {55, 90, 141},  {51, 99, 141},  {47, 106, 142}, {44, 114, 142}, {41, 122, 142},
    {38, 129, 142}, {35, 137, 142}, {33, 144, 141}, {31, 152, 139}, {30, 159, 136}, {33, 166, 133}, {39, 174, 128},
    {49, 181, 123}, {61, 188, 116}, {76, 194, 108}, {92, 201, 99},  {110, 206, 88}, {129, 212, 76}, {150, 216, 64},
    {171, 220, 50}, {192, 223, 36}, {213, 226, 25}, {234, 229, 25}, {253, 231, 36}};

static const uint8_t inferno_knots[KNOTS][3] = {
    {0, 0, 3},      {3, 3, 18},     {10, 7, 36},     {21, 11, 55},    {33, 12, 74},   {46, 10, 91},   {60, 9, 101},
    {74, 11, 107},  {87, 16, 110},  {99, 20, 111},   {112, 25, 110},  {125, 30, 109}, {137, 34, 106}, {150, 39, 102},
    {163, 43, 98},  {175, 49, 92},  {187, 55, 85},   {198, 61, 77},   {209, 69, 69},  {219, 79, 60},  {228, 89, 50},
    {235, 101, 40}, {241, 113, 30}, {246, 127, 20},  {249, 141, 9},   {251, 156, 5},  {252, 171, 15}, {251, 186, 31},
    {249, 202, 50}, {245, 217, 73}, {242, 232, 101}, {242, 245, 134}, {252, 255, 165}};

static const uint8_t magma_knots[KNOTS][3] = {
    {0, 0, 3},       {3, 3, 17},      {10, 8, 34},     {19, 13, 51},    {29, 17, 70},    {40, 18, 90},
    {54, 16, 107},   {67, 15, 118},   {80, 18, 124},   {93, 23, 127},   {105, 28, 129},  {118, 33, 129},
    {130, 38, 130},  {143, 42, 129},  {156, 46, 127},  {169, 50, 125},  {182, 55, 122},  {195, 59, 117},
    {208, 65, 112},  {219, 72, 106},  {230, 80, 99},   {239, 92, 94},   {245, 105, 91},  {249, 120, 92},
    {252, 135, 97},  {253, 150, 104}, {254, 165, 113}, {254, 180, 123}, {254, 195, 135}, {254, 209, 148},
    {253, 224, 161}, {252, 238, 176}, {252, 253, 191}};

/* smooth cool to warm (Moreland 2009) */
static const uint8_t coolwarm_knots[KNOTS][3] = {
    {59, 76, 192},   {68, 90, 204},   {77, 104, 215},  {87, 117, 225},  {98, 130, 234},  {108, 142, 241},
    {119, 154, 247}, {130, 165, 251}, {141, 176, 254}, {152, 185, 255}, {163, 194, 255}, {174, 201, 253},
    {184, 208, 249}, {194, 213, 244}, {204, 217, 238}, {213, 219, 230}, {221, 221, 221}, {229, 216, 209},
    {236, 211, 197}, {241, 204, 185}, {245, 196, 173}, {247, 187, 160}, {247, 177, 148}, {247, 166, 135},
    {244, 154, 123}, {241, 141, 111}, {236, 127, 99},  {229, 112, 88},  {222, 96, 77},   {213, 80, 66},
    {203, 62, 56},   {192, 40, 47},   {180, 4, 38}};

static void shades_of_knots(uint8_t rgb[VT_SHADES][3], const uint8_t knots[KNOTS][3])
{
    for (int i = 0; i < VT_SHADES; i++) {
        const int place = i * (KNOTS - 1);
        const int k = place / (VT_SHADES - 1), rest = place % (VT_SHADES - 1); /* rest is 0 at the last knot */
        for (int c = 0; c < 3; c++) {
            const int a = knots[k][c], b = knots[rest ? k + 1 : k][c];
            rgb[i][c] = (uint8_t)((a * (VT_SHADES - 1 - rest) + b * rest + (VT_SHADES - 1) / 2) / (VT_SHADES - 1));
        }
    }
}

static void turbo(uint8_t rgb[VT_SHADES][3])
{
    shades_of_knots(rgb, turbo_knots);
}

static void viridis(uint8_t rgb[VT_SHADES][3])
{
    shades_of_knots(rgb, viridis_knots);
}

static void inferno(uint8_t rgb[VT_SHADES][3])
{
    shades_of_knots(rgb, inferno_knots);
}

static void magma(uint8_t rgb[VT_SHADES][3])
{
    shades_of_knots(rgb, magma_knots);
}

static void coolwarm(uint8_t rgb[VT_SHADES][3])
{
    shades_of_knots(rgb, coolwarm_knots);
}

/* A hill of slope 4 and height 1.5, cut off at 1. */
static uint8_t jet_channel(double x, double rise, double fall)
{
    const double up = 4.0 * x - rise, down = fall - 4.0 * x;
    const double v = up < down ? up : down;
    return (uint8_t)(255.0 * (v < 0.0 ? 0.0 : v > 1.0 ? 1.0 : v) + 0.5);
}

static void jet(uint8_t rgb[VT_SHADES][3])
{
    for (int i = 0; i < VT_SHADES; i++) {
        const double x = i / (VT_SHADES - 1.0);
        rgb[i][0] = jet_channel(x, 1.5, 4.5);
        rgb[i][1] = jet_channel(x, 0.5, 3.5);
        rgb[i][2] = jet_channel(x, -0.5, 2.5);
    }
}

static void gray(uint8_t rgb[VT_SHADES][3])
{
    for (int i = 0; i < VT_SHADES; i++)
        rgb[i][0] = rgb[i][1] = rgb[i][2] = (uint8_t)i;
}

typedef struct colormap {
    bool diverging;
    void (*shades)(uint8_t rgb[VT_SHADES][3]);
} colormap;

static const colormap colormaps[] = {
#define VT_COLORMAP(name, diverging) {diverging, name},
#include "engine/render/colormaps.def"
#undef VT_COLORMAP
};

const char *const vt_colormap_names[] = {
#define VT_COLORMAP(name, diverging) #name,
#include "engine/render/colormaps.def"
#undef VT_COLORMAP
    NULL};

size_t vt_colormap_count(void)
{
    return VT_COUNT(colormaps);
}

bool vt_colormap_is_diverging(size_t k)
{
    return k < VT_COUNT(colormaps) && colormaps[k].diverging;
}

size_t vt_colormap_choose(int asked, bool diverging)
{
    if (asked >= 0 && (size_t)asked < VT_COUNT(colormaps))
        return (size_t)asked;
    for (size_t k = 0; k < VT_COUNT(colormaps); k++)
        if (colormaps[k].diverging == diverging)
            return k;
    return 0;
}

void vt_colormap_shades(uint8_t rgb[VT_SHADES][3], size_t k)
{
    colormaps[k < VT_COUNT(colormaps) ? k : 0].shades(rgb);
}
