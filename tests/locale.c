/* Tests run in the locale of whoever runs them, as programs with a window do: scripts/check sets a decimal comma. */
#include <locale.h>

__attribute__((constructor)) static void use_locale(void)
{
    setlocale(LC_ALL, "");
}
