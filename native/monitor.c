// Receives messages that the kernel sends on its own: about links, addresses, routes and neighbours, and reported packets.
// Node.js cannot wait for a netlink socket, so a separate thread does and passes what it has read to the event loop in
// batches. The monitor does not keep the process alive. It ends when the descriptor that the open functions return is closed.
// Failures are negative errnos, returned or passed to the callback; ENOBUFS means that the kernel dropped messages.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addon.h"

// The oldest version of these symbols, so that hosts with an older C library than that of the build can load the addon.
#ifdef __x86_64__
#define FIRST_GLIBC "GLIBC_2.2.5"
#else
#define FIRST_GLIBC "GLIBC_2.17"
#endif
__asm__(".symver pthread_create,pthread_create@" FIRST_GLIBC);
__asm__(".symver pthread_detach,pthread_detach@" FIRST_GLIBC);
__asm__(".symver pthread_sigmask,pthread_sigmask@" FIRST_GLIBC);

// A datagram of the kernel is far smaller than the space reserved for it.
enum { NOTE_BYTES = 64 * 1024, DATAGRAM_BYTES = 16 * 1024, WAITING_NOTES = 16, SOCKET_BYTES = 4 * 1024 * 1024 };

struct monitor {
  int socket;
  int end;
  napi_threadsafe_function deliver;
};

struct note {
  int error;
  size_t length;
  uint8_t bytes[NOTE_BYTES];
};

// Runs on the event loop.
static void deliver_note(napi_env env, napi_value callback, void *context, void *data) {
  (void)context;
  struct note *note = data;
  if (env != NULL) {
    napi_value argument, receiver;
    if (note->error != 0) napi_create_int32(env, -note->error, &argument);
    else if (napi_create_buffer_copy(env, note->length, note->bytes, NULL, &argument) != napi_ok)
      napi_create_int32(env, -ENOMEM, &argument);
    napi_get_undefined(env, &receiver);
    napi_call_function(env, receiver, callback, 1, &argument, NULL);
  }
  free(note);
}

// Reads all pending datagrams that fit.
static void read_note(int socket, struct note *note) {
  while (note->length + DATAGRAM_BYTES <= NOTE_BYTES) {
    ssize_t got = recv(socket, note->bytes + note->length, DATAGRAM_BYTES, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0 || got > DATAGRAM_BYTES) {
      note->error = got < 0 ? errno : ENOBUFS;
      return;
    }
    // Messages start at multiples of four.
    note->length += NLMSG_ALIGN((size_t)got);
  }
}

static void *watch(void *data) {
  struct monitor *monitor = data;
  for (;;) {
    struct pollfd waiting[] = {{monitor->socket, POLLIN, 0}, {monitor->end, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0 && errno == EINTR) continue;
    if (waiting[1].revents != 0) break;
    struct note *note = calloc(1, sizeof *note);
    if (note == NULL) abort();
    read_note(monitor->socket, note);
    int is_over = note->error != 0 && note->error != ENOBUFS;
    if (note->error == 0 && note->length == 0) {
      free(note);
      continue;
    }
    // Blocks while the queue is full; the kernel then buffers messages, and reports ENOBUFS when its buffer is full.
    if (napi_call_threadsafe_function(monitor->deliver, note, napi_tsfn_blocking) != napi_ok) {
      free(note);
      break;
    }
    if (is_over) break;
  }
  napi_release_threadsafe_function(monitor->deliver, napi_tsfn_release);
  close(monitor->socket);
  close(monitor->end);
  free(monitor);
  return NULL;
}

static int open_socket(uint32_t groups) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -errno;
  int bytes = SOCKET_BYTES;
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
  // Fails without the right to exceed the system's limit, which then applies.
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  int error = errno;
  close(fd);
  return -error;
}

static int start_thread(struct monitor *monitor) {
  pthread_t thread;
  sigset_t all, before;
  // Only the main thread handles signals.
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, NULL, watch, monitor);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) pthread_detach(thread);
  return -error;
}

// Watches the socket, which belongs to the monitor from then on. Returns the descriptor that ends it, or a negative errno.
static int start_monitor(napi_env env, int socket, napi_value callback) {
  napi_value name;
  int ends[2];
  if (socket < 0) return socket;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    int error = errno;
    close(socket);
    return -error;
  }
  struct monitor *monitor = calloc(1, sizeof *monitor);
  if (monitor == NULL) abort();
  monitor->socket = socket;
  monitor->end = ends[0];
  napi_create_string_utf8(env, "netplug monitor", NAPI_AUTO_LENGTH, &name);
  int error = EINVAL;
  if (napi_create_threadsafe_function(env, callback, NULL, name, WAITING_NOTES, 1, NULL, NULL, NULL, deliver_note,
                                      &monitor->deliver) == napi_ok) {
    napi_unref_threadsafe_function(env, monitor->deliver);
    error = -start_thread(monitor);
    if (error == 0) return ends[1];
    napi_release_threadsafe_function(monitor->deliver, napi_tsfn_abort);
  }
  close(socket);
  close(ends[0]);
  close(ends[1]);
  free(monitor);
  return -error;
}

// Reads (number, function). The caller is a typed wrapper, so a wrong type is a bug.
static int read_arguments(napi_env env, napi_callback_info info, uint32_t *number, napi_value *callback) {
  napi_value arguments[2];
  napi_valuetype type;
  size_t count = 2;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
      napi_get_value_uint32(env, arguments[0], number) != napi_ok ||
      napi_typeof(env, arguments[1], &type) != napi_ok || type != napi_function) {
    napi_throw_type_error(env, NULL, "wrong arguments");
    return 0;
  }
  *callback = arguments[1];
  return 1;
}

// (groups, callback): the socket belongs to the network namespace the calling thread is in.
napi_value js_open_monitor(napi_env env, napi_callback_info info) {
  uint32_t groups;
  napi_value callback, result = NULL;
  if (!read_arguments(env, info, &groups, &callback)) return NULL;
  napi_create_int32(env, start_monitor(env, open_socket(groups), callback), &result);
  return result;
}

// (socket, callback): the socket was opened by another function of the addon, and nothing else reads it any more.
napi_value js_monitor_socket(napi_env env, napi_callback_info info) {
  uint32_t socket;
  int bytes = SOCKET_BYTES;
  napi_value callback, result = NULL;
  if (!read_arguments(env, info, &socket, &callback)) return NULL;
  // Less than for batches, which bounds what a flood of packets occupies. The kernel drops the rest and counts it.
  setsockopt((int)socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  napi_create_int32(env, start_monitor(env, (int)socket, callback), &result);
  return result;
}
