// Feeds mutants of valid inputs to a fuzz target for a given time. It needs only gcc, so that every test run can use it;
// `make fuzz` is guided by coverage. Arguments: seconds, and the seed that repeats a run.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 4096, MOST_CHANGES = 8, HANG_SECONDS = 30, ROUNDS_PER_LOOK = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
void __asan_set_death_callback(void (*callback)(void));

/** A greeting and an answer; the second one starts with a time limit. */
static const struct {
  const char *bytes;
  size_t length;
} SEEDS[] = {
    {"\0\010NPA1\0\0\0\0\003\0\0\0\003\0\0\0outerr", 24},
    {"\002\00460NPA1\001\0\0\0\0\0\0\0\0\0\0\0", 20},
    {"\0\0NPA1", 6},
};
static const uint32_t ODD_WORDS[] = {0, 1, 255, 256, 65535, 1u << 20, 1u << 24, (1u << 24) + 1, INT32_MAX, 1u << 31, UINT32_MAX};

static uint8_t input[MOST_BYTES];
static size_t input_length;
static uint64_t seed, state, rounds;

static void tell(void) {
  fprintf(stderr, "seed %llu, round %llu, input ", (unsigned long long)seed, (unsigned long long)rounds);
  for (size_t at = 0; at < input_length; at += 1) fprintf(stderr, "%02x", input[at]);
  fprintf(stderr, "\n");
}

static void on_signal(int signal_number) {
  tell();
  _exit(signal_number == SIGALRM ? 2 : 1);
}

/** xorshift64*. */
static size_t below(size_t bound) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (size_t)((state * 0x2545f4914f6cdd1dULL) >> 33) % bound;
}

static void change(void) {
  size_t at = below(input_length + 1), span = below(16) + 1;
  switch (below(5)) {
  case 0:
    if (at < input_length) input[at] = (uint8_t)below(256);
    break;
  case 1:
    if (at + 4 <= input_length) memcpy(input + at, &ODD_WORDS[below(sizeof ODD_WORDS / sizeof *ODD_WORDS)], 4);
    break;
  case 2:
    if (input_length + span > MOST_BYTES) break;
    memmove(input + at + span, input + at, input_length - at);
    for (size_t byte = 0; byte < span; byte += 1) input[at + byte] = (uint8_t)below(256);
    input_length += span;
    break;
  case 3:
    if (at + span > input_length) break;
    memmove(input + at, input + at + span, input_length - at - span);
    input_length -= span;
    break;
  default:
    input_length = at;
  }
}

int main(int count, char **words) {
  time_t end = time(NULL) + (count > 1 ? atoi(words[1]) : 1);
  seed = count > 2 ? strtoull(words[2], NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
  state = seed * 2 + 1;
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_signal);
  __asan_set_death_callback(tell);
  while (rounds % ROUNDS_PER_LOOK != 0 || time(NULL) < end) {
    rounds += 1;
    size_t chosen = below(sizeof SEEDS / sizeof *SEEDS);
    input_length = SEEDS[chosen].length;
    memcpy(input, SEEDS[chosen].bytes, input_length);
    for (size_t changes = below(MOST_CHANGES + 1); changes > 0; changes -= 1) change();
    alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(input, input_length);
  }
  printf("%llu inputs\n", (unsigned long long)rounds);
  return 0;
}
