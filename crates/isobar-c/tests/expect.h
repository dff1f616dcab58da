/* Expectations of test programs about return codes, with a part of the message where a call fails. */
#include <isobar.h>

#include <stdio.h>
#include <string.h>

/* A program without MPI is rank 0. */
static int failures, rank;

static void expect_at(int line, int32_t code, int32_t wanted, const char *words)
{
    const char *said = code == ISOBAR_OK ? "" : isobar_last_error();
    if (code != wanted || !strstr(said, words)) {
        fprintf(stderr, "rank %d, line %d: code %d, wanted %d with \"%s\": %s\n", rank, line, code, wanted, words, said);
        ++failures;
    }
}
#define expect(code, wanted, words) expect_at(__LINE__, code, wanted, words)
