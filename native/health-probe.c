// netplug-probe PATH: asks the health server of the agent of this pod, and exits with 0 when it answers 200.
//
// Kubernetes cannot put the name of a pod into an HTTP probe, and while an agent takes over from another one the health
// address of the node belongs to the old agent, whose answer must not make the new pod ready. A Node program that starts for
// every probe would cost a percent of a core; this one needs no runtime and less than a millisecond.
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:9098"
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

// Splits `host:port` or `[host]:port` in place. Returns the family, or -1.
static int read_address(char *text, struct sockaddr_storage *address, socklen_t *size) {
  char *colon = strrchr(text, ':');
  if (colon == NULL) return -1;
  *colon = '\0';
  const in_port_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
  memset(address, 0, sizeof *address);
  if (*text == '[' && colon > text && colon[-1] == ']') {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    colon[-1] = '\0';
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    *size = sizeof *v6;
    return inet_pton(AF_INET6, text + 1, &v6->sin6_addr) == 1 ? AF_INET6 : -1;
  }
  struct sockaddr_in *v4 = (struct sockaddr_in *)address;
  v4->sin_family = AF_INET;
  v4->sin_port = port;
  *size = sizeof *v4;
  return inet_pton(AF_INET, text, &v4->sin_addr) == 1 ? AF_INET : -1;
}

int main(int count, char **arguments) {
  if (count != 2) return fail("usage: netplug-probe PATH, such as /readyz");
  const char *pod = getenv("POD_NAME");
  const char *set = getenv("NETPLUG_HEALTH_ADDRESS");
  char text[128];
  snprintf(text, sizeof text, "%s", set == NULL ? DEFAULT_ADDRESS : set);
  struct sockaddr_storage address;
  socklen_t size;
  const int family = read_address(text, &address, &size);
  if (family < 0) return fail("NETPLUG_HEALTH_ADDRESS is not an IP address with a port");

  const int connection = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(connection, (struct sockaddr *)&address, size) != 0) return fail("no health server listens");

  char message[4096];
  const int length = snprintf(message, sizeof message, "GET %s%s%s HTTP/1.0\r\n\r\n",
                              arguments[1], pod == NULL ? "" : "?pod=", pod == NULL ? "" : pod);
  if (length >= (int)sizeof message) return fail("the path or POD_NAME is too long");
  if (write(connection, message, (size_t)length) != length) return fail("the health server does not read");

  size_t received = 0;
  for (ssize_t more; received < sizeof message - 1; received += (size_t)more) {
    more = read(connection, message + received, sizeof message - 1 - received);
    if (more < 0) return fail("the health server does not answer within %d s", TIMEOUT_SECONDS);
    if (more == 0) break;
  }
  message[received] = '\0';
  const char *body = strstr(message, "\r\n\r\n");
  fputs(body == NULL ? message : body + 4, stdout);
  // "HTTP/1.1 200 OK": the version is that of the server.
  return strncmp(message, "HTTP/1.", 7) == 0 && strncmp(message + 8, " 200 ", 5) == 0 ? 0 : 1;
}
