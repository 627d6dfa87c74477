// The operations that the data plane needs and Node.js does not offer: setns, netlink sockets for routing and for the
// packet filter, a blocking exchange on them, and the same exchange on a worker thread for requests that make the kernel wait. Messages are encoded
// and decoded in TypeScript. Every function returns the negative errno of a failure; the caller writes the message.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <node_api.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "addon.h"

enum { RECEIVE_BYTES = 64 * 1024, TIMEOUT_SECONDS = 10, BATCH_BYTES = 64 * 1024 * 1024 };

struct reply {
  uint8_t *bytes;
  size_t length;
  int error;
};

struct job {
  napi_async_work work;
  napi_deferred deferred;
  int socket;
  uint8_t *request;
  size_t request_length;
  struct reply reply;
};

// The sequence number of the last message that the kernel acknowledges or lists for: that is the last thing it sends. The
// message that ends a batch of the packet filter is not acknowledged.
static uint32_t last_acknowledged(const uint8_t *request, size_t length) {
  uint32_t sequence = 0;
  size_t at = 0;
  while (at + NLMSG_HDRLEN <= length) {
    struct nlmsghdr header;
    memcpy(&header, request + at, sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN) break;
    if ((header.nlmsg_flags & NLM_F_ACK) != 0 || (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP)
      sequence = header.nlmsg_seq;
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return sequence;
}

// The sequence number of the message that begins a batch of the packet filter; 0 for any other request. The kernel
// reports the failure of a batch as a whole about this message, and then may not acknowledge the last one.
static uint32_t batch_sequence(int socket, const uint8_t *request, size_t length) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  struct nlmsghdr header;
  if (length < sizeof header || getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return 0;
  memcpy(&header, request, sizeof header);
  return protocol == NETLINK_NETFILTER && header.nlmsg_type == NFNL_MSG_BATCH_BEGIN ? header.nlmsg_seq : 0;
}

static int holds_end(const uint8_t *bytes, size_t length, uint32_t sequence, uint32_t batch) {
  size_t at = 0;
  while (at + NLMSG_HDRLEN <= length) {
    struct nlmsghdr header;
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN) return 0;
    int is_end = header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE;
    if (is_end && (header.nlmsg_seq == sequence || (batch != 0 && header.nlmsg_seq == batch))) return 1;
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return 0;
}

// Sends once, then receives until the last message is acknowledged or its dump is done.
static struct reply exchange(int socket, const uint8_t *request, size_t length) {
  struct reply reply = {NULL, 0, 0};
  uint32_t sequence = last_acknowledged(request, length);
  uint32_t batch = batch_sequence(socket, request, length);
  ssize_t sent;
  do sent = send(socket, request, length, 0);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    reply.error = errno;
    return reply;
  }
  for (;;) {
    uint8_t *grown = realloc(reply.bytes, reply.length + RECEIVE_BYTES);
    if (grown == NULL) reply.error = ENOMEM;
    if (grown == NULL) return reply;
    reply.bytes = grown;
    uint8_t *part = reply.bytes + reply.length;
    ssize_t got = recv(socket, part, RECEIVE_BYTES, MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || got > RECEIVE_BYTES) {
      reply.error = got < 0 ? errno : EMSGSIZE;
      return reply;
    }
    reply.length += (size_t)got;
    if (holds_end(part, (size_t)got, sequence, batch)) return reply;
  }
}

static napi_value to_number(napi_env env, int value) {
  napi_value number = NULL;
  napi_create_int32(env, value, &number);
  return number;
}

static napi_value to_value(napi_env env, struct reply *reply) {
  napi_value value = NULL;
  if (reply->error != 0) value = to_number(env, -reply->error);
  else if (napi_create_buffer_copy(env, reply->length, reply->bytes, NULL, &value) != napi_ok)
    value = to_number(env, -ENOMEM);
  free(reply->bytes);
  return value;
}

// Reads (number) or (number, bytes). The caller is a typed wrapper, so a wrong type is a bug.
static int read_arguments(napi_env env, napi_callback_info info, int *fd, uint8_t **bytes, size_t *length) {
  napi_value arguments[2];
  size_t wanted = bytes == NULL ? 1 : 2;
  size_t count = wanted;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < wanted ||
      napi_get_value_int32(env, arguments[0], fd) != napi_ok ||
      (bytes != NULL && napi_get_buffer_info(env, arguments[1], (void **)bytes, length) != napi_ok)) {
    napi_throw_type_error(env, NULL, "wrong arguments");
    return 0;
  }
  return 1;
}

napi_value js_setns(napi_env env, napi_callback_info info) {
  int fd;
  if (!read_arguments(env, info, &fd, NULL, NULL)) return NULL;
  return to_number(env, setns(fd, CLONE_NEWNET) == 0 ? 0 : -errno);
}

static int open_socket(int protocol) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return -errno;
  int on = 1;
  struct timeval timeout = {TIMEOUT_SECONDS, 0};
  setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
  setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  return fd;
}

// The socket stays in the network namespace of the calling thread.
napi_value js_open_route_socket(napi_env env, napi_callback_info info) {
  (void)info;
  return to_number(env, open_socket(NETLINK_ROUTE));
}

// Like js_open_route_socket, with room for large batches: the kernel takes a batch only as one packet.
napi_value js_open_filter_socket(napi_env env, napi_callback_info info) {
  (void)info;
  int fd = open_socket(NETLINK_NETFILTER);
  int bytes = BATCH_BYTES;
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  return to_number(env, fd);
}

napi_value js_close(napi_env env, napi_callback_info info) {
  int fd;
  if (!read_arguments(env, info, &fd, NULL, NULL)) return NULL;
  return to_number(env, close(fd) == 0 ? 0 : -errno);
}

napi_value js_exchange(napi_env env, napi_callback_info info) {
  int fd;
  uint8_t *request;
  size_t length;
  if (!read_arguments(env, info, &fd, &request, &length)) return NULL;
  struct reply reply = exchange(fd, request, length);
  return to_value(env, &reply);
}

static void run_job(napi_env env, void *data) {
  (void)env;
  struct job *job = data;
  job->reply = exchange(job->socket, job->request, job->request_length);
}

static void finish_job(napi_env env, napi_status status, void *data) {
  struct job *job = data;
  if (status != napi_ok) job->reply.error = ECANCELED;
  napi_resolve_deferred(env, job->deferred, to_value(env, &job->reply));
  napi_delete_async_work(env, job->work);
  free(job->request);
  free(job);
}

napi_value js_exchange_on_worker(napi_env env, napi_callback_info info) {
  int fd;
  uint8_t *request;
  size_t length;
  napi_value promise, name;
  if (!read_arguments(env, info, &fd, &request, &length)) return NULL;
  struct job *job = calloc(1, sizeof *job);
  if (job != NULL) job->request = malloc(length);
  if (job == NULL || job->request == NULL) abort();
  memcpy(job->request, request, length);
  job->request_length = length;
  job->socket = fd;
  napi_create_promise(env, &job->deferred, &promise);
  napi_create_string_utf8(env, "netplug netlink", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, run_job, finish_job, job, &job->work);
  napi_queue_async_work(env, job->work);
  return promise;
}
