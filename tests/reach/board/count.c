/* Runs a model of --profile mcu on an emulated Cortex-M and prints its instructions and outputs. The
 * emulator's clock advances by 1 ns an instruction (-icount shift=0), and SysTick counts at 25 MHz. */
#include "m.h"

#include <stdio.h>

void _start(void);

static void
reset(void)
{
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: floats */
    __asm__ volatile("dsb\n\tisb");
    _start();
}

static uint32_t first_stack[256] __attribute__((aligned(8)));
static const void *const vectors[16]
    __attribute__((section(".vectors"), used)) = { first_stack + 256, reset };

static float in[m_IN0_ELEMENTS], out[m_OUT0_ELEMENTS];

int
main(void)
{
    volatile uint32_t *systick = (volatile uint32_t *)0xe000e010;
    uint32_t before, after;

    for (int i = 0; i < m_IN0_ELEMENTS; i++)
        in[i] = (float)((i * 37 + 11) % 17);
    systick[1] = 0xffffff;
    systick[2] = 0;
    systick[0] = 5;
    before = systick[2];
    int code = m_run(in, out);
    after = systick[2];
    printf("%lu\n", (unsigned long)((before - after) & 0xffffff) * 40);
    for (int i = 0; i < m_OUT0_ELEMENTS; i++)
        printf("%.9g\n", (double)out[i]);
    return code;
}
