// Starts programs the way a container runtime does, and measures each from before its start until it is gone and its
// output has ended. It stays inside the namespaces of a node, so that nothing but the program itself is measured.
//
// Over the unix socket in its argument, all numbers little-endian and without padding:
//   batch:  u32 at once, u32 jobs, then each job: u32 length of argv, of env, of stdin, and these; NUL ends each string
//   answer: each job: u32 status, u64 wall ns, u64 CPU ns, u32 length of stdout, stdout; at the end u64 wall ns of all
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_AT_ONCE = 256, MAX_STRINGS = 256, MAX_STDIN = 65536, CHUNK = 65536 };

struct job {
  char *argv[MAX_STRINGS], *env[MAX_STRINGS], *input, *output;
  uint32_t input_length, output_length, status;
  uint64_t start_ns, wall_ns, cpu_ns;
  pid_t pid;
  int pidfd, out;  // -1: ended
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *reserve(size_t size) {
  void *memory = calloc(1, size + 1);
  if (memory == NULL) err(1, "calloc");
  return memory;
}

static int read_all(int fd, void *into, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t got = read(fd, (char *)into + done, length - done);
    if (got <= 0) return -1;
    done += (size_t)got;
  }
  return 0;
}

static void write_all(int fd, const void *from, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t put = write(fd, (const char *)from + done, length - done);
    if (put < 0) err(1, "write");
    done += (size_t)put;
  }
}

static void split(char *text, uint32_t length, char **into) {
  int count = 0;
  for (char *at = text; at < text + length && count < MAX_STRINGS - 1; at += strlen(at) + 1) into[count++] = at;
}

static void read_job(int peer, struct job *job) {
  uint32_t lengths[3];
  if (read_all(peer, lengths, sizeof lengths) != 0) errx(1, "a batch ends in the middle");
  char *text[3];
  for (int part = 0; part < 3; part++) {
    text[part] = reserve(lengths[part]);
    if (read_all(peer, text[part], lengths[part]) != 0) errx(1, "a batch ends in the middle");
  }
  if (lengths[2] > MAX_STDIN) errx(1, "standard input does not fit into a pipe");
  split(text[0], lengths[0], job->argv);
  split(text[1], lengths[1], job->env);
  job->input = text[2];
  job->input_length = lengths[2];
}

static void start(struct job *job) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) err(1, "pipe2");
  write_all(in[1], job->input, job->input_length);
  close(in[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  job->start_ns = now_ns();
  int failure = posix_spawn(&job->pid, job->argv[0], &actions, NULL, job->argv, job->env);
  if (failure != 0) errx(1, "%s: %s", job->argv[0], strerror(failure));
  close(in[0]);
  close(out[1]);
  posix_spawn_file_actions_destroy(&actions);
  job->out = out[0];
  job->pidfd = pidfd_open(job->pid, 0);
  if (job->pidfd < 0) err(1, "pidfd_open");
}

static void take_output(struct job *job) {
  job->output = realloc(job->output, job->output_length + CHUNK);
  if (job->output == NULL) err(1, "realloc");
  ssize_t got = read(job->out, job->output + job->output_length, CHUNK);
  if (got < 0) err(1, "read");
  job->output_length += (uint32_t)got;
  if (got > 0) return;
  close(job->out);
  job->out = -1;
}

static void take_status(struct job *job) {
  int status;
  struct rusage usage;
  if (wait4(job->pid, &status, 0, &usage) != job->pid) err(1, "wait4");
  job->status = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 128 + (uint32_t)WTERMSIG(status);
  job->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
  close(job->pidfd);
  job->pidfd = -1;
}

static void run(struct job *jobs, uint32_t count, uint32_t at_once) {
  struct job *running[MAX_AT_ONCE];
  struct pollfd polled[2 * MAX_AT_ONCE];
  uint32_t active = 0, started = 0;
  while (started < count || active > 0) {
    while (active < at_once && started < count) start(running[active++] = &jobs[started++]);
    for (uint32_t i = 0; i < active; i++) {
      polled[2 * i] = (struct pollfd){.fd = running[i]->out, .events = POLLIN};
      polled[2 * i + 1] = (struct pollfd){.fd = running[i]->pidfd, .events = POLLIN};
    }
    if (poll(polled, 2 * active, -1) < 0) err(1, "poll");
    uint32_t kept = 0;
    for (uint32_t i = 0; i < active; i++) {
      struct job *job = running[i];
      if (polled[2 * i].revents != 0) take_output(job);
      if (polled[2 * i + 1].revents != 0) take_status(job);
      if (job->out < 0 && job->pidfd < 0) job->wall_ns = now_ns() - job->start_ns;
      else running[kept++] = job;
    }
    active = kept;
  }
}

static void serve(int peer) {
  uint32_t head[2];
  while (read_all(peer, head, sizeof head) == 0) {
    uint32_t at_once = head[0], count = head[1];
    if (at_once == 0 || at_once > MAX_AT_ONCE) errx(1, "%u at once", at_once);
    struct job *jobs = reserve(count * sizeof *jobs);
    for (uint32_t i = 0; i < count; i++) read_job(peer, &jobs[i]);
    uint64_t start_ns = now_ns();
    run(jobs, count, at_once);
    uint64_t all_ns = now_ns() - start_ns;
    for (uint32_t i = 0; i < count; i++) {
      write_all(peer, &jobs[i].status, sizeof jobs[i].status);
      write_all(peer, &jobs[i].wall_ns, sizeof jobs[i].wall_ns);
      write_all(peer, &jobs[i].cpu_ns, sizeof jobs[i].cpu_ns);
      write_all(peer, &jobs[i].output_length, sizeof jobs[i].output_length);
      write_all(peer, jobs[i].output, jobs[i].output_length);
      free(jobs[i].argv[0]);
      free(jobs[i].env[0]);
      free(jobs[i].input);
      free(jobs[i].output);
    }
    write_all(peer, &all_ns, sizeof all_ns);
    free(jobs);
  }
}

int main(int argc, char **argv) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) errx(1, "one argument: path of the socket");
  strcpy(address.sun_path, argv[1]);
  signal(SIGPIPE, SIG_IGN);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0)
    err(1, "%s", argv[1]);
  fputs("listening\n", stderr);
  int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (peer < 0) err(1, "accept4");
  serve(peer);
}
