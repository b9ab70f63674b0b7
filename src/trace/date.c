#include "trace/date.h"

#include "base/err.h"

#include <stdbool.h>

#define US_PER_S INT64_C(1000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes exactly so many digits off the front. */
static bool take_number(struct text *t, size_t digits, int *out)
{
    *out = 0;
    if (t->n < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (!is_digit(t->p[i]))
            return false;
        *out = *out * 10 + (t->p[i] - '0');
    }
    *t = (struct text){t->p + digits, t->n - digits};
    return true;
}

static bool take_one_of(struct text *t, char a, char b)
{
    if (t->n == 0 || (t->p[0] != a && t->p[0] != b))
        return false;
    *t = (struct text){t->p + 1, t->n - 1};
    return true;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

/* Whole days since 1970-01-01. */
static int64_t day_number(int year, int month, int day)
{
    int before = year - 1;
    int64_t days = 365 * (int64_t)(year - 1970) + (before / 4 - before / 100 + before / 400) - 477;
    for (int m = 1; m < month; m++)
        days += days_in(year, m);
    return days + day - 1;
}

static bool take_day(struct text *t, int64_t *us)
{
    int year, month, day;
    if (!take_number(t, 4, &year) || !take_one_of(t, '-', '-') || !take_number(t, 2, &month) ||
        !take_one_of(t, '-', '-') || !take_number(t, 2, &day))
        return false;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return false;
    *us = day_number(year, month, day) * 86400 * US_PER_S;
    return true;
}

static bool take_fraction(struct text *t, int64_t *us)
{
    int64_t unit = US_PER_S / 10;
    if (!take_one_of(t, '.', ','))
        return true;
    if (t->n == 0 || !is_digit(t->p[0]))
        return false;
    for (int digit; t->n > 0 && is_digit(t->p[0]) && take_number(t, 1, &digit); unit /= 10)
        *us += digit * unit;
    return true;
}

/* Second 60 is a leap second. */
static bool take_time_of_day(struct text *t, int64_t *us)
{
    int hour, minute, second = 0;
    if (!take_number(t, 2, &hour) || !take_one_of(t, ':', ':') || !take_number(t, 2, &minute))
        return false;
    bool has_seconds = take_one_of(t, ':', ':');
    if (has_seconds && !take_number(t, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *us += ((hour * 60 + minute) * INT64_C(60) + second) * US_PER_S;
    return !has_seconds || take_fraction(t, us);
}

static bool take_offset(struct text *t, int64_t *us)
{
    int hours, minutes = 0;
    if (t->n == 0 || take_one_of(t, 'Z', 'z'))
        return true;
    int sign = t->p[0] == '-' ? -1 : 1;
    if (!take_one_of(t, '+', '-') || !take_number(t, 2, &hours))
        return false;
    if (t->n > 0) {
        (void)take_one_of(t, ':', ':');
        if (!take_number(t, 2, &minutes))
            return false;
    }
    *us -= sign * INT64_C(60) * US_PER_S * (hours * 60 + minutes);
    return hours <= 23 && minutes <= 59;
}

int date_parse(struct text t, int64_t *out)
{
    int64_t us;
    if (!take_day(&t, &us) || !take_one_of(&t, 'T', ' ') || !take_time_of_day(&t, &us) ||
        !take_offset(&t, &us) || t.n > 0)
        return ERR_INVALID;
    *out = us;
    return 0;
}
