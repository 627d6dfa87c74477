// The network of one pod in as few system calls as the kernel allows, by a program that does nothing else: what any
// plugin needs at least. It makes and removes the links that netplug makes: docs/benchmarks.md compares the two.
//   link-floor add NETNS NAME ADDRESS    a veth pair, its pod end born in the namespace, with all that belongs to it
//   link-floor del NAME...               removes the links as one group
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH_BYTES = 65536, DOWN_GROUP = 1 << 30, ALONE = 32, ANYWHERE = 0 };
#define GATEWAY "169.254.1.1"
static const unsigned char MAC[6] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee};

// Messages that go to the kernel together.
struct batch {
  char bytes[BATCH_BYTES];
  size_t length, message;
  int count, index, peer_index;  // of the link that the kernel has told of
};
static struct batch batch;

static void put(int type, const void *payload, size_t length) {
  struct rtattr attribute = {(unsigned short)RTA_LENGTH(length), (unsigned short)type};
  memcpy(batch.bytes + batch.length, &attribute, sizeof attribute);
  if (length > 0) memcpy(batch.bytes + batch.length + RTA_LENGTH(0), payload, length);
  batch.length += RTA_SPACE(length);
}

static void put_number(int type, unsigned value) { put(type, &value, sizeof value); }

static size_t open_nest(int type, size_t head) {
  size_t at = batch.length;
  put(type | NLA_F_NESTED, NULL, 0);
  memset(batch.bytes + batch.length, 0, head);
  batch.length += head;
  return at;
}

static void close_nest(size_t at) {
  unsigned short length = (unsigned short)(batch.length - at);
  memcpy(batch.bytes + at, &length, sizeof length);
}

static void begin(int type, int flags, const void *head, size_t length) {
  batch.message = batch.length;
  struct nlmsghdr header = {0, (unsigned short)type, (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags),
                            (unsigned)++batch.count, 0};
  memcpy(batch.bytes + batch.length, &header, sizeof header);
  memcpy(batch.bytes + batch.length + NLMSG_HDRLEN, head, length);
  batch.length += NLMSG_HDRLEN + NLMSG_ALIGN(length);
}

static void end(void) {
  unsigned length = (unsigned)(batch.length - batch.message);
  memcpy(batch.bytes + batch.message, &length, sizeof length);
}

static void learn_link(const struct nlmsghdr *note) {
  const struct ifinfomsg *link = NLMSG_DATA(note);
  batch.index = link->ifi_index;
  int left = (int)IFLA_PAYLOAD(note);
  for (struct rtattr *at = IFLA_RTA(link); RTA_OK(at, left); at = RTA_NEXT(at, left))
    if (at->rta_type == IFLA_LINK) memcpy(&batch.peer_index, RTA_DATA(at), sizeof batch.peer_index);
}

// Sends the batch in one call, and reads until its last message is acknowledged.
static void carry_out(int socket, const char *what) {
  static char answer[BATCH_BYTES];
  if (send(socket, batch.bytes, batch.length, 0) < 0) err(1, "%s: send", what);
  for (int open = batch.count; open > 0;) {
    ssize_t got = recv(socket, answer, sizeof answer, 0);
    if (got < 0) err(1, "%s: recv", what);
    for (struct nlmsghdr *at = (struct nlmsghdr *)answer; NLMSG_OK(at, got); at = NLMSG_NEXT(at, got)) {
      if (at->nlmsg_type == RTM_NEWLINK) learn_link(at);
      if (at->nlmsg_type != NLMSG_ERROR) continue;
      const struct nlmsgerr *verdict = NLMSG_DATA(at);
      if (verdict->error != 0) errx(1, "%s: message %u: %s", what, at->nlmsg_seq, strerror(-verdict->error));
      open--;
    }
  }
  batch.length = 0, batch.count = 0;
}

static void link_message(int type, int flags, int index, int is_up) {
  struct ifinfomsg head = {.ifi_index = index, .ifi_flags = is_up ? IFF_UP : 0, .ifi_change = is_up ? IFF_UP : 0};
  begin(type, flags, &head, sizeof head);
}

static void route(const char *destination, int bits, const char *gateway, int index) {
  struct rtmsg head = {.rtm_family = AF_INET, .rtm_dst_len = (unsigned char)bits, .rtm_table = RT_TABLE_MAIN,
                       .rtm_protocol = RTPROT_BOOT, .rtm_type = RTN_UNICAST,
                       .rtm_scope = gateway == NULL ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE};
  begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof head);
  put_number(RTA_DST, inet_addr(destination));
  put_number(RTA_OIF, (unsigned)index);
  if (gateway != NULL) put_number(RTA_GATEWAY, inet_addr(gateway));
  end();
}

static void create_pair(int host, int pod_fd, const char *name) {
  link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ECHO, 0, 0);
  put(IFLA_IFNAME, name, strlen(name) + 1);
  put(IFLA_ADDRESS, MAC, sizeof MAC);
  put_number(IFLA_MTU, 1500);
  size_t info = open_nest(IFLA_LINKINFO, 0);
  put(IFLA_INFO_KIND, "veth", 5);
  size_t data = open_nest(IFLA_INFO_DATA, 0), peer = open_nest(VETH_INFO_PEER, sizeof(struct ifinfomsg));
  put(IFLA_IFNAME, "eth0", 5);
  put_number(IFLA_NET_NS_FD, (unsigned)pod_fd);
  put_number(IFLA_MTU, 1500);
  close_nest(peer), close_nest(data), close_nest(info);
  end();
  carry_out(host, "make the pair");
}

// As net.ipv4.conf.NAME.* and net.ipv4.neigh.NAME.proxy_delay; the one setting that only has a file comes first.
static void configure_host(int host, const char *name, const char *address) {
  char path[128];
  snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/accept_ra", name);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0 && write(file, "0", 1) != 1) err(1, "%s", path);
  close(file);
  link_message(RTM_SETLINK, 0, batch.index, 0);
  put(IFLA_IFALIAS, name, strlen(name));
  size_t spec = open_nest(IFLA_AF_SPEC, 0), inet = open_nest(AF_INET, 0), conf = open_nest(IFLA_INET_CONF, 0);
  put_number(IPV4_DEVCONF_FORWARDING, 1);
  put_number(IPV4_DEVCONF_PROXY_ARP, 1);
  put_number(IPV4_DEVCONF_RP_FILTER, 1);
  close_nest(conf), close_nest(inet);
  if (file >= 0) {
    size_t inet6 = open_nest(AF_INET6, 0);
    put(IFLA_INET6_ADDR_GEN_MODE, (unsigned char[]){IN6_ADDR_GEN_MODE_NONE}, 1);
    close_nest(inet6);
  }
  close_nest(spec), end();
  begin(RTM_SETNEIGHTBL, 0, &(struct ndtmsg){.ndtm_family = AF_INET}, sizeof(struct ndtmsg));
  put(NDTA_NAME, "arp_cache", 10);
  size_t parameters = open_nest(NDTA_PARMS, 0);
  put_number(NDTPA_IFINDEX, (unsigned)batch.index);
  put(NDTPA_PROXY_DELAY, &(unsigned long long){0}, sizeof(unsigned long long));
  close_nest(parameters), end();
  link_message(RTM_SETLINK, 0, batch.index, 1), end();
  route(address, ALONE, NULL, batch.index);
  carry_out(host, "set up the host's end");
}

static void configure_pod(int pod, int index, const char *address) {
  link_message(RTM_SETLINK, 0, 1, 1), end();
  link_message(RTM_SETLINK, 0, index, 1), end();
  struct ifaddrmsg head = {.ifa_family = AF_INET, .ifa_prefixlen = ALONE, .ifa_index = (unsigned)index};
  begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof head);
  put_number(IFA_LOCAL, inet_addr(address)), put_number(IFA_ADDRESS, inet_addr(address)), end();
  route(GATEWAY, ALONE, NULL, index);
  struct ndmsg neighbour = {.ndm_family = AF_INET, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
  begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &neighbour, sizeof neighbour);
  put_number(NDA_DST, inet_addr(GATEWAY)), put(NDA_LLADDR, MAC, sizeof MAC), end();
  route("0.0.0.0", ANYWHERE, GATEWAY, index);
  carry_out(pod, "set up the pod's end");
}

static int open_socket(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), on = 1;
  if (fd < 0 || setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on) != 0) err(1, "netlink socket");
  return fd;
}

static void add(const char *netns, const char *name, const char *address) {
  int host = open_socket(), home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  int pod_fd = open(netns, O_RDONLY | O_CLOEXEC);
  if (pod_fd < 0 || setns(pod_fd, CLONE_NEWNET) != 0) err(1, "%s", netns);
  int pod = open_socket();
  if (setns(home, CLONE_NEWNET) != 0) err(1, "the host's namespace");
  create_pair(host, pod_fd, name);
  configure_host(host, name, address);
  configure_pod(pod, batch.peer_index, address);
}

static void del(char **names) {
  for (char **name = names; *name != NULL; name++) {
    link_message(RTM_SETLINK, 0, 0, 0);
    put(IFLA_IFNAME, *name, strlen(*name) + 1), put_number(IFLA_GROUP, (unsigned)(DOWN_GROUP + getpid())), end();
  }
  link_message(RTM_DELLINK, 0, 0, 0), put_number(IFLA_GROUP, (unsigned)(DOWN_GROUP + getpid())), end();
  carry_out(open_socket(), "remove links");
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "add") == 0) add(argv[2], argv[3], argv[4]);
  else if (argc > 2 && strcmp(argv[1], "del") == 0) del(argv + 2);
  else errx(2, "usage: link-floor add NETNS NAME ADDRESS | del NAME...");
}
