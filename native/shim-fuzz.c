// Fuzzes how the shim decodes the answer of an agent, and the time limit: `make fuzz`. The first two bytes of an input
// determine the length of NETPLUG_CALL_TIMEOUT and where the agent's bytes are split.
#define main shim_main
#include "shim.c"
#undef main

static void feed(int agent, const uint8_t *bytes, size_t length) {
  if (length > 0 && send(agent, bytes, length, MSG_NOSIGNAL) < 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  if (length < 2) return 0;
  size_t limit_length = bytes[0] % 16, cut = bytes[1];
  bytes += 2, length -= 2;
  if (limit_length > length) limit_length = length;
  char limit[16];
  memcpy(limit, bytes, limit_length);
  limit[limit_length] = '\0';
  bytes += limit_length, length -= limit_length;
  int64_t allowed_ms = limit_ms(limit);
  if (allowed_ms < GRACE_MS || allowed_ms > MOST_SECONDS * 1000 + GRACE_MS) abort();

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
  if (cut > length) cut = length;
  feed(ends[1], bytes, cut);
  feed(ends[1], bytes + cut, length - cut);
  shutdown(ends[1], SHUT_WR);
  // The same as ask(), without standard input.
  struct answer answer = {0, 0, 0, NULL};
  if (says(ends[0], HELLO, sizeof HELLO, now_ms() + HELLO_MS) && pack_environment() &&
      receive_answer(ends[0], &answer, now_ms() + GRACE_MS) == DONE) {
    size_t heard = 4 + 12 + (size_t)answer.stdout_length + answer.stderr_length;
    if (heard > length || answer.status > 255) abort();
    if (memcmp(answer.text, bytes + 16, answer.stdout_length) != 0) abort();
  }
  free(answer.text);
  close(ends[0]);
  close(ends[1]);
  return 0;
}
