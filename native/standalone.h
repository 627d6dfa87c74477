// The server of standalone calls: netplug-standalone, which the first call without an agent starts, and which stays for some
// seconds to serve the next ones. docs/decisions/2026-11-23-standalone-server.md describes who may start and who may use it.
#ifndef NETPLUG_STANDALONE_H
#define NETPLUG_STANDALONE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

// What a server and its callers have in common: the executable, the namespaces, the root folder and the environment.
enum { MOST_NAMESPACES = 5 };
struct identity {
  char magic[4];
  uint32_t is_root;
  uint64_t executable[5], root[2], namespaces[MOST_NAMESPACES], environment;
};

// `agent` is the socket of the agent as it was before the call tried to reach it.
struct standalone {
  const char *program, *agent_path;
  struct identity identity;
  struct stat agent;
  int has_agent;
};

int64_t now_ms(void);
int reach(const char *path);

// Prepares the environment of netplug-standalone before it is executed.
void clear_runtime_options(void);

// Returns whether the call may use a server. `program` is the path of netplug-standalone.
int describe_standalone(struct standalone *call, const char *program, const char *agent_path);

// Returns a connection to the server, or -1. Starts one where none runs, if asked to.
int reach_standalone(const struct standalone *call, int may_start, int64_t deadline);
#endif
