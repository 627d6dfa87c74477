// Finds or starts the server of standalone calls. It inherits its socket and its lock, which holds its process id, and
// nothing else of the call: no namespace of a pod, no pipe of the runtime.
#define _GNU_SOURCE
#include "standalone.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { SOCKET_FD = 3, LOCK_FD = 4, FIRST_FREE_FD = 5, MOST_FDS = 1024, BACKLOG = 512 };
enum { JOIN_MS = 1000, RETRY_MS = 2 };
static const char DEFAULT_FOLDER[] = "/run/netplug", DEFAULT_AGENT[] = "/run/netplug/cni.sock";
static const char *NAMESPACES[MOST_NAMESPACES] = {"net", "mnt", "pid", "user", "uts"};

struct places {
  char folder[PATH_MAX], socket[PATH_MAX], lock[PATH_MAX];
};

// FNV-1a with a final mix, so that a sum of such numbers does not depend on the order of the entries.
static uint64_t digest(const char *text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  return hash ^ (hash >> 33);
}

static int starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

// Returns whether an entry of the environment belongs to one call only.
static int is_of_call(const char *entry) {
  return starts_with(entry, "CNI_") || starts_with(entry, "TRACEPARENT=") || starts_with(entry, "TRACESTATE=");
}

static int identify(struct identity *identity, const char *program) {
  struct stat found;
  memset(identity, 0, sizeof *identity);
  memcpy(identity->magic, "NPS1", sizeof identity->magic);
  identity->is_root = geteuid() == 0 && getuid() == 0;
  if (stat(program, &found) != 0) return 0;
  uint64_t executable[5] = {found.st_dev, found.st_ino, (uint64_t)found.st_size, (uint64_t)found.st_mtim.tv_sec,
                            (uint64_t)found.st_mtim.tv_nsec};
  memcpy(identity->executable, executable, sizeof executable);
  if (stat("/", &found) != 0) return 0;
  identity->root[0] = found.st_dev, identity->root[1] = found.st_ino;
  for (int index = 0; index < MOST_NAMESPACES; index++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", NAMESPACES[index]);
    if (stat(path, &found) != 0) return 0;
    identity->namespaces[index] = found.st_ino;
  }
  for (char **entry = environ; *entry != NULL; entry++)
    if (!is_of_call(*entry)) identity->environment += digest(*entry);
  return identity->is_root != 0;
}

int describe_standalone(struct standalone *call, const char *program, const char *agent_path) {
  call->program = program, call->agent_path = agent_path;
  if (call->has_agent && !S_ISSOCK(call->agent.st_mode)) return 0;
  return agent_path[0] == '/' && identify(&call->identity, program);
}

static int find_places(struct places *places, const char *agent_path) {
  size_t length = (size_t)(strrchr(agent_path, '/') - agent_path);
  if (length == 0 || length + sizeof "/standalone.sock" > sizeof((struct sockaddr_un *)NULL)->sun_path) return 0;
  memcpy(places->folder, agent_path, length);
  places->folder[length] = '\0';
  stpcpy(stpcpy(places->socket, places->folder), "/standalone.sock");
  stpcpy(stpcpy(places->lock, places->folder), "/standalone.lock");
  // After a boot without an agent there is no folder yet. Only the default one is created.
  if (strcmp(agent_path, DEFAULT_AGENT) == 0) mkdir(DEFAULT_FOLDER, 0755);
  struct stat folder;
  return lstat(places->folder, &folder) == 0 && S_ISDIR(folder.st_mode) && folder.st_uid == 0 && (folder.st_mode & 022) == 0;
}

// Returns the locked file, or -1: EWOULDBLOCK while a server runs.
static int lock_file(const char *path) {
  int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return -1;
  struct stat own, there;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    if (fstat(lock, &own) == 0 && lstat(path, &there) == 0 && own.st_ino == there.st_ino && own.st_dev == there.st_dev)
      return lock;
    errno = EWOULDBLOCK; // a server that ended has removed it meanwhile
  }
  int reason = errno;
  close(lock);
  errno = reason;
  return -1;
}

static int listen_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  unlink(path);
  mode_t mask = umask(0177);
  int is_bound = listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0;
  umask(mask);
  if (is_bound && listen(listener, BACKLOG) == 0) return listener;
  if (is_bound) unlink(path);
  if (listener >= 0) close(listener);
  return -1;
}

// Removes the options of the runtime inside the program: what a caller has set for programs of its own must not change it.
void clear_runtime_options(void) {
  char **kept = environ;
  for (char **entry = environ; *entry != NULL; entry++)
    if (!starts_with(*entry, "BUN_")) *kept++ = *entry;
  *kept = NULL;
}

// Becomes the server. Returns when that fails.
static void become_server(const struct standalone *call, const struct places *places, int listener, int lock) {
  static const char DIGITS[] = "0123456789abcdef";
  char identity[2 * sizeof call->identity + 1] = "", agent[64] = "none";
  const unsigned char *bytes = (const unsigned char *)&call->identity;
  for (size_t index = 0; index < sizeof call->identity; index++)
    identity[2 * index] = DIGITS[bytes[index] >> 4], identity[2 * index + 1] = DIGITS[bytes[index] & 15];
  if (call->has_agent)
    snprintf(agent, sizeof agent, "%llu:%llu", (unsigned long long)call->agent.st_dev, (unsigned long long)call->agent.st_ino);

  int null = open("/dev/null", O_RDWR);
  listener = fcntl(listener, F_DUPFD, FIRST_FREE_FD), lock = fcntl(lock, F_DUPFD, FIRST_FREE_FD);
  if (null < 0 || listener < 0 || lock < 0 || setsid() < 0 || chdir("/") != 0) return;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) dup2(null, fd);
  if (dup2(listener, SOCKET_FD) < 0 || dup2(lock, LOCK_FD) < 0 || ftruncate(LOCK_FD, 0) != 0) return;
  dprintf(LOCK_FD, "%d\n", getpid());
  if (syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0) != 0)
    for (int fd = FIRST_FREE_FD; fd < MOST_FDS; fd++) close(fd);
  char *arguments[] = {"netplug-standalone", "serve",        identity,
                       agent,                (char *)places->socket, (char *)places->lock, NULL};
  clear_runtime_options();
  execve(call->program, arguments, environ);
}

static int start_server(const struct standalone *call, const struct places *places, int lock) {
  int listener = listen_at(places->socket);
  if (listener < 0) {
    unlink(places->lock);
    return 0;
  }
  pid_t child = fork();
  if (child == 0) {
    become_server(call, places, listener, lock);
    unlink(places->socket), unlink(places->lock);
    _exit(127);
  }
  if (child < 0) unlink(places->socket), unlink(places->lock);
  close(listener);
  return child > 0;
}

int reach_standalone(const struct standalone *call, int may_start, int64_t deadline) {
  struct places places;
  if (!find_places(&places, call->agent_path)) return -1;
  int64_t until = now_ms() + JOIN_MS;
  do {
    int server = reach(places.socket);
    if (server >= 0 || !may_start) return server;
    int lock = lock_file(places.lock);
    if (lock < 0 && errno != EWOULDBLOCK) return -1;
    if (lock < 0) {
      poll(NULL, 0, RETRY_MS);
      continue;
    }
    int is_started = start_server(call, &places, lock);
    close(lock);
    if (!is_started) return -1;
  } while (now_ms() < until && now_ms() < deadline);
  return -1;
}
