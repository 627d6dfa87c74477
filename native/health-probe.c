// netplug-probe PATH: asks the agent of this pod for its health, and exits with 0 when it answers 200. With @NAME in place of the
// path it asks the program for /readyz that listens at that abstract name of the network namespace: the sidecar of the pod.
//
// Kubernetes cannot put the name of a pod into an HTTP probe, and while an agent takes over from another one the socket of the
// node belongs to the old agent, whose answer must not make the new pod ready. Only root may connect to the socket: at a port,
// any user of the node could hold all connections, and the kubelet would restart the agent. A Node program that starts for every
// probe would cost a percent of a core; this one needs no runtime and less than a millisecond.
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_CALLS "/run/netplug/cni.sock"
#define NAME "probes.sock"
#define TIMEOUT_SECONDS 3

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  return 1;
}

int main(int count, char **arguments) {
  if (count != 2) return fail("usage: netplug-probe PATH, such as /readyz, or @NAME");
  const char *name = arguments[1][0] == '@' ? arguments[1] : NULL;
  const char *path = name == NULL ? arguments[1] : "/readyz";
  const char *pod = name == NULL ? getenv("POD_NAME") : NULL;
  const char *set = getenv("NETPLUG_SOCKET");
  const char *calls = set == NULL || *set == '\0' ? DEFAULT_CALLS : set;
  const char *slash = strrchr(calls, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - calls) + 1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int size = name == NULL ? snprintf(address.sun_path, sizeof address.sun_path, "%.*s%s", folder, calls, NAME)
                                : snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
  if (size >= (int)sizeof address.sun_path) return fail("the path of NETPLUG_SOCKET is too long");
  // An abstract name begins with NUL, and ends with the address.
  if (name != NULL) address.sun_path[0] = '\0';
  const socklen_t length_of_address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size);

  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(connection, (struct sockaddr *)&address, name == NULL ? sizeof address : length_of_address) != 0)
    return name == NULL ? fail("no agent listens at %s", address.sun_path) : fail("no sidecar listens at %s", name);

  char message[4096];
  const int length = snprintf(message, sizeof message, "GET %s%s%s HTTP/1.0\r\n\r\n",
                              path, pod == NULL ? "" : "?pod=", pod == NULL ? "" : pod);
  if (length >= (int)sizeof message) return fail("the path or POD_NAME is too long");
  if (write(connection, message, (size_t)length) != length) return fail("the agent does not read");

  size_t received = 0;
  for (ssize_t more; received < sizeof message - 1; received += (size_t)more) {
    more = read(connection, message + received, sizeof message - 1 - received);
    if (more < 0) return fail("the agent does not answer within %d s", TIMEOUT_SECONDS);
    if (more == 0) break;
  }
  message[received] = '\0';
  const char *body = strstr(message, "\r\n\r\n");
  fputs(body == NULL ? message : body + 4, stdout);
  // "HTTP/1.1 200 OK": the version is that of the server.
  return strncmp(message, "HTTP/1.", 7) == 0 && strncmp(message + 8, " 200 ", 5) == 0 ? 0 : 1;
}
