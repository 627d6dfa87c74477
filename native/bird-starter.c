// netplug-bird: runs BIRD in the foreground and restarts it when it exits, apart from the agent, whose container would end it.
//
// It waits until the agent has written bird.conf, and leaves a BIRD alone that runs already. The agent does all else by BIRD's control
// socket. A start is prepared as `prepareStart` of src/bgp/bird.ts does for agents that start BIRD themselves; test/e2e/netplug-bird
// compares both. It is in C because it waits on every node that may speak BGP: with Node.js, that took 61 MB.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_MS = 250, FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 10 * 1000, NOT_EXECUTED = 126, NOT_FOUND = 127 };
static const char DEFAULT_RUN_DIR[] = "/run/netplug";

// Each has the length of the socket's path at most, whose limit is the shortest, and another ending.
typedef char path[sizeof((struct sockaddr_un *)NULL)->sun_path + sizeof ".first-link"];
static path folder, config, control, pid_file, graceful, first_link;
static volatile pid_t bird; // 0 while none runs

// Writes a line in the format of the other programs (src/base/log.ts). Bytes that could steer a terminal become "?".
static void say(const char *level, const char *event, const char *key, const char *value) {
  char time[32], line[1024];
  struct timespec now = {0};
  struct tm utc = {0};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &utc) == NULL) return;
  strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
  int start = snprintf(line, sizeof line, "%s.%03ldZ %-7s %s %s=", time, now.tv_nsec / 1000000, level, event, key);
  size_t end = (size_t)start;
  int is_word = *value != '\0';
  for (const char *at = value; *at != '\0'; at++) is_word &= *at > ' ' && *at <= '~' && strchr("\"=\\", *at) == NULL;
  if (!is_word) line[end++] = '"';
  for (const char *at = value; *at != '\0' && end < sizeof line - 4; at++) {
    if (*at == '"' || *at == '\\') line[end++] = '\\';
    line[end++] = *at >= ' ' && *at <= '~' ? *at : '?';
  }
  if (!is_word) line[end++] = '"';
  line[end++] = '\n';
  if (write(STDERR_FILENO, line, end) < 0) return; // a log that is not read must not end BIRD
}

static long now_ms(void) {
  struct timespec now = {0};
  return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec * 1000 + now.tv_nsec / 1000000 : 0;
}

static void sleep_ms(long ms) {
  struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
}

// BIRD would close its sessions and remove its routes on a friendlier signal. Peers and kernel keep the routes of a killed one.
static void on_stop(int signal_number) {
  (void)signal_number;
  if (bird > 0 && kill(bird, SIGKILL) == 0) waitpid(bird, NULL, 0);
  _exit(0);
}

// Waits until the BIRD that listens ends: one that an agent has started keeps its sessions. Returns whether there was one.
static int outlast_other(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, control);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int listens = connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) == 0;
  char greeting[64];
  while (listens && read(connection, greeting, sizeof greeting) > 0) continue;
  if (connection >= 0) close(connection);
  return listens;
}

// Starts BIRD, in graceful restart after a kill. Returns 0, otherwise the errno.
static int start(const sigset_t *stops) {
  if (unlink(first_link) != 0 && errno != ENOENT) return errno;
  // BIRD removes its pid file on a clean exit. After a graceful one there are routes to keep, as after a kill.
  if (rename(graceful, pid_file) != 0 && errno != ENOENT) return errno;
  char *arguments[] = {"bird", "-f", "-c", config, "-s", control, "-P", pid_file, NULL, NULL};
  if (access(pid_file, F_OK) == 0) arguments[8] = "-R";
  // No stop may come between the start and the note of the process id.
  sigset_t before;
  if (sigprocmask(SIG_BLOCK, stops, &before) != 0) return errno;
  const pid_t child = fork();
  const int error = child < 0 ? errno : 0;
  if (child > 0) bird = child;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (child != 0) return error;
  execvp(arguments[0], arguments);
  _exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTED);
}

// Waits until BIRD has exited, and writes the reason, empty for status 0. Returns 0, otherwise the errno.
static int outlast_bird(char *reason, size_t size) {
  siginfo_t end;
  int status = 0;
  const pid_t child = bird;
  while (waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT) != 0)
    if (errno != EINTR) return errno;
  bird = 0; // before its number can become that of another process
  if (waitpid(child, &status, 0) != child) return errno;
  const int code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (WIFSIGNALED(status)) snprintf(reason, size, "BIRD ended with signal %d (%s)", code, strsignal(code));
  else if (code == NOT_FOUND) snprintf(reason, size, "there is no program \"bird\": install BIRD 2 (on Debian the package bird2)");
  else if (code != 0) snprintf(reason, size, "BIRD ended with status %d", code);
  return 0;
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "--version") == 0) return puts("netplug-bird " VERSION) < 0;
  const char *set = getenv("NETPLUG_RUN_DIR"), *run = set == NULL || *set == '\0' ? DEFAULT_RUN_DIR : set;
  if (strlen(run) + sizeof "/bird/bird.ctl" > sizeof((struct sockaddr_un *)NULL)->sun_path) {
    fputs("the path of NETPLUG_RUN_DIR is too long\n", stderr);
    return 1;
  }
  char *const files[] = {folder, config, control, pid_file, graceful, first_link};
  const char *const ends[] = {"", "/bird.conf", "/bird.ctl", "/bird.pid", "/bird.graceful", "/bird.first-link"};
  for (int index = 0; index < 6; index++) snprintf(files[index], sizeof(path), "%s/bird%s", run, ends[index]);

  struct sigaction action = {.sa_handler = on_stop};
  int is_set = sigemptyset(&action.sa_mask) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR;
  const int stops[] = {SIGTERM, SIGINT, SIGHUP};
  for (int index = 0; index < 3; index++) is_set &= sigaddset(&action.sa_mask, stops[index]) == 0;
  for (int index = 0; index < 3; index++) is_set &= sigaction(stops[index], &action, NULL) == 0;
  if (!is_set) return 1;

  say("INFO", "waiting for the configuration of BIRD", "folder", folder);
  for (long wait_ms = FIRST_WAIT_MS;;) {
    while (access(config, F_OK) != 0) sleep_ms(CHECK_MS);
    // Its end may be the end of the configuration as well.
    if (outlast_other()) {
      sleep_ms(CHECK_MS);
      continue;
    }
    char reason[128] = "";
    const long started_ms = now_ms();
    int error = start(&action.sa_mask);
    if (error == 0) say("INFO", "BIRD started", "folder", folder);
    if (error == 0) error = outlast_bird(reason, sizeof reason);
    if (error != 0) snprintf(reason, sizeof reason, "starting BIRD failed: %s", strerror(error));
    if (*reason == '\0') say("INFO", "BIRD stopped", "reason", "it was shut down by its control socket");
    else say("ERROR", "BIRD failed", "reason", reason);
    if (*reason == '\0' || now_ms() - started_ms > LONGEST_WAIT_MS) wait_ms = FIRST_WAIT_MS;
    // Between half of it and all, so that nodes do not restart at the same moment.
    sleep_ms(wait_ms / 2 + now_ms() % (wait_ms / 2));
    wait_ms = wait_ms * 2 < LONGEST_WAIT_MS ? wait_ms * 2 : LONGEST_WAIT_MS;
  }
}
