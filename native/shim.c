// The program that runtimes start as netplug and netplug-ipam. It sends its environment and standard input to the agent of
// the node and prints the answer. When no agent accepts the call, it asks the server of standalone calls (standalone.c), or
// executes netplug-standalone in the same folder. docs/decisions/2026-11-21-resident-agent.md describes the protocol.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "standalone.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers on the socket are little-endian");
enum { HELLO_MS = 1000, SERVER_HELLO_MS = 2000, GRACE_MS = 5000, DEFAULT_SECONDS = 60, MOST_SECONDS = 3600 };
enum { NOEXEC_SEAL = 8 }; // MFD_NOEXEC_SEAL, which older headers lack
enum { MOST_ENVIRONMENT = 1024 * 1024, MOST_INPUT = 4 * 1024 * 1024, MOST_OUTPUT = 16 * 1024 * 1024 };
static const char STANDALONE[] = "netplug-standalone";
static const char DEFAULT_SOCKET[] = "/run/netplug/cni.sock";
static const char HELLO[] = {'N', 'P', 'A', '1'};

enum outcome { DONE, GONE, LATE }; // GONE: no peer, or not an agent, at the other end. LATE: timed out.

struct answer {
  uint32_t status, stdout_length, stderr_length;
  char *text;
};

// A request as it is sent. The body holds the environment, then standard input, of which it has room for one byte more than
// allowed, so that the standalone program detects that its own limit is exceeded.
static struct {
  uint32_t kind, environment_length, input_length;
  char body[MOST_ENVIRONMENT + MOST_INPUT + 1];
} request;
static int asked = -1;
static volatile sig_atomic_t is_interrupted;

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Returns the time limit, decoded as the agent does; the agent reports invalid values.
static int64_t limit_ms(const char *text) {
  double seconds = text != NULL && text[strspn(text, "0123456789.")] == '\0' ? strtod(text, NULL) : 0;
  return (int64_t)((seconds > 0 && seconds <= MOST_SECONDS ? seconds : DEFAULT_SECONDS) * 1000) + GRACE_MS;
}

static enum outcome await(int fd, short events, int64_t deadline) {
  for (int64_t left; (left = deadline - now_ms()) > 0;) {
    int ready = poll(&(struct pollfd){fd, events, 0}, 1, (int)left);
    if (ready > 0) return DONE;
    if (ready < 0 && errno != EINTR) return GONE;
  }
  return LATE;
}

// Receives (POLLIN) or sends (POLLOUT) all bytes.
static enum outcome move(int agent, short direction, void *bytes, size_t length, int64_t deadline) {
  for (size_t at = 0; at < length;) {
    enum outcome ready = await(agent, direction, deadline);
    if (ready != DONE) return ready;
    char *rest = (char *)bytes + at;
    ssize_t moved = direction == POLLIN ? recv(agent, rest, length - at, 0)
                                        : send(agent, rest, length - at, MSG_NOSIGNAL);
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) return GONE;
    if (moved > 0) at += (size_t)moved;
  }
  return DONE;
}

// Returns a connection to a process of root or of the same user, or -1.
int reach(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (peer < 0) return -1;
  struct ucred owner;
  socklen_t length = sizeof owner;
  if (connect(peer, (struct sockaddr *)&address, sizeof address) == 0 &&
      getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &owner, &length) == 0 && (owner.uid == 0 || owner.uid == geteuid()))
    return peer;
  close(peer);
  return -1;
}

static int says(int peer, const void *hello, size_t length, int64_t deadline) {
  char said[sizeof(struct identity)];
  return move(peer, POLLIN, said, length, deadline) == DONE && memcmp(said, hello, length) == 0;
}

static int pack_environment(void) {
  request.environment_length = 0;
  for (char **entry = environ; *entry != NULL; entry++) {
    size_t size = strlen(*entry) + 1;
    if (size > MOST_ENVIRONMENT - request.environment_length) return 0;
    memcpy(request.body + request.environment_length, *entry, size);
    request.environment_length += (uint32_t)size;
  }
  return 1;
}

static char *input(void) {
  return request.body + request.environment_length;
}

static enum outcome read_input(int64_t deadline) {
  while (request.input_length <= MOST_INPUT) {
    enum outcome ready = await(STDIN_FILENO, POLLIN, deadline);
    if (ready != DONE) return ready;
    ssize_t got = read(STDIN_FILENO, input() + request.input_length, MOST_INPUT + 1 - request.input_length);
    if (got == 0) return DONE;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return GONE;
    if (got > 0) request.input_length += (uint32_t)got;
  }
  return GONE;
}

static enum outcome receive_answer(int agent, struct answer *answer, int64_t deadline) {
  enum outcome outcome = move(agent, POLLIN, answer, 3 * sizeof(uint32_t), deadline);
  if (outcome != DONE) return outcome;
  if (answer->status > 255 || answer->stdout_length > MOST_OUTPUT || answer->stderr_length > MOST_OUTPUT) return GONE;
  size_t length = (size_t)answer->stdout_length + answer->stderr_length;
  answer->text = malloc(length + 1);
  return answer->text == NULL ? GONE : move(agent, POLLIN, answer->text, length, deadline);
}

// The agent undoes the call when the shim closes its sending side, and answers when that is done.
static void interrupt(int signal_number) {
  is_interrupted = signal_number;
  shutdown(asked, SHUT_WR);
}

// Asks an agent or a server that has said hello.
static enum outcome ask(int agent, uint32_t kind, struct answer *answer, int64_t deadline) {
  if (!pack_environment()) return GONE;
  enum outcome outcome = read_input(deadline - GRACE_MS);
  if (outcome != DONE) return outcome;
  request.kind = kind, asked = agent;
  signal(SIGTERM, interrupt), signal(SIGINT, interrupt);
  if (is_interrupted) return GONE;
  size_t length = offsetof(typeof(request), body) + request.environment_length + request.input_length;
  outcome = move(agent, POLLOUT, &request, length, deadline);
  return outcome == DONE ? receive_answer(agent, answer, deadline) : outcome;
}

static int print(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, text, length);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return 0;
    if (put < 0) poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
    else text += put, length -= (size_t)put;
  }
  return 1;
}

// Prints a CNI error with code 11, "try again later"; for texts that need no escapes.
static int fail(const char *message, const char *details) {
  dprintf(STDOUT_FILENO, "{\"cniVersion\": \"1.0.0\", \"code\": 11, \"msg\": \"%s\", \"details\": \"%s\"}\n", message, details);
  return 1;
}

// Restores standard input, so that the standalone program can read it from the start.
static int restore_input(void) {
  if (request.input_length == 0) return 1;
  int file = memfd_create("stdin", MFD_CLOEXEC | NOEXEC_SEAL);
  if (file < 0 && errno == EINVAL) file = memfd_create("stdin", MFD_CLOEXEC);
  return file >= 0 && print(file, input(), request.input_length) && lseek(file, 0, SEEK_SET) == 0 && dup2(file, STDIN_FILENO) == 0;
}

// Asks the server of standalone calls. ADD and DEL start one, because more of them follow in most cases.
static enum outcome ask_standalone(struct standalone *call, const char *program, const char *agent_path,
                                   const char *command, uint32_t kind, struct answer *answer, int64_t deadline) {
  if (command[0] == '\0' || !describe_standalone(call, program, agent_path)) return GONE;
  int may_start = strcmp(command, "ADD") == 0 || strcmp(command, "DEL") == 0;
  int64_t hello_deadline = now_ms() + SERVER_HELLO_MS;
  if (hello_deadline > deadline - GRACE_MS) hello_deadline = deadline - GRACE_MS;
  int server = reach_standalone(call, may_start, hello_deadline);
  if (server < 0) return GONE;
  int is_ours = says(server, &call->identity, sizeof call->identity, hello_deadline);
  enum outcome outcome = is_ours ? ask(server, kind, answer, deadline) : GONE;
  if (outcome == GONE) close(server);
  return outcome;
}

static void find_standalone(char *path) { // empty when that fails
  if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0 && path[0] == '/') strcpy(strrchr(path, '/') + 1, STANDALONE);
  else path[0] = '\0';
}

static int become_standalone(const char *path, char *program) { // returns only when that fails
  char shown[PATH_MAX + sizeof STANDALONE], message[PATH_MAX + 256];
  clear_runtime_options();
  if (restore_input()) execve(path, (char *[]){program, NULL}, environ);
  int reason = errno;
  strcpy(shown, path);
  for (char *at = shown; *at != '\0'; at++)
    if ((unsigned char)*at < ' ' || *at == '"' || *at == '\\') *at = '?';
  snprintf(message, sizeof message, "Cannot serve the call: no agent takes it, and '%s' cannot be executed: %s", shown,
           strerror(reason));
  return fail(message, "hint: Run netplugctl install on this node, or start the agent; code: install/incomplete");
}

static const char *last_name(const char *path) { // basename of glibc, which musl has no longer
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

int main(int argc, char **argv) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return 1;
  uint32_t kind = argc > 0 && strcmp(last_name(argv[0]), "netplug-ipam") == 0 ? 2 : 1;
  const char *path = getenv("NETPLUG_SOCKET"), *command = getenv("CNI_COMMAND");
  int64_t deadline = now_ms() + limit_ms(getenv("NETPLUG_CALL_TIMEOUT"));
  if (path == NULL || path[0] == '\0') path = DEFAULT_SOCKET;
  if (command == NULL) command = "";
  struct standalone call;
  call.has_agent = lstat(path, &call.agent) == 0;
  struct answer answer;
  enum outcome outcome = GONE;
  int agent = command[0] == '\0' ? -1 : reach(path);
  if (agent >= 0 && says(agent, HELLO, sizeof HELLO, now_ms() + HELLO_MS)) outcome = ask(agent, kind, &answer, deadline);
  if (agent >= 0 && outcome == GONE) close(agent);
  if (outcome == GONE && !is_interrupted) {
    char program[PATH_MAX + sizeof STANDALONE] = "";
    find_standalone(program);
    outcome = ask_standalone(&call, program, path, command, kind, &answer, deadline);
    if (outcome == GONE && !is_interrupted) return become_standalone(program, kind == 2 ? "netplug-ipam" : "netplug");
  }
  if (outcome != DONE)
    return fail(outcome == GONE ? "Cannot finish the call: it was interrupted, and the agent went away"
                : asked < 0     ? "Cannot finish the call: standard input did not end before the time was up"
                                : "Cannot finish the call: the agent did not answer before the time was up",
                "hint: Look for what is slow in the log; NETPLUG_CALL_TIMEOUT sets another limit; code: cni/deadline");
  // A runtime that closed standard error still gets the answer.
  signal(SIGPIPE, SIG_IGN);
  print(STDERR_FILENO, answer.text + answer.stdout_length, answer.stderr_length);
  return print(STDOUT_FILENO, answer.text, answer.stdout_length) ? (int)answer.status : 1;
}
