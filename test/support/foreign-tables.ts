// Tables as other programs make them, in the language of nft.

export const KUBE_PROXY = `table ip kube-proxy {
  map no-endpoint-services {
    type ipv4_addr . inet_proto . inet_service : verdict; comment "services without endpoints"
    elements = { 10.96.0.9 . tcp . 80 : goto reject-chain }
  }
  set cluster-ips { type ipv4_addr; elements = { 10.96.0.1 }; }
  chain reject-chain { reject; }
  chain filter-forward { type filter hook forward priority -110; ct state new jump service-endpoints-check; }
  chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; ip daddr @cluster-ips dnat to 10.65.0.2; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; meta mark & 0x4000 == 0x4000 masquerade fully-random; }
}`;

export const DOCKER = `table ip docker-bridges {
  map in { type ifname : verdict; elements = { "docker0" : jump in__docker0 }; }
  map out { type ifname : verdict; elements = { "docker0" : jump out__docker0 }; }
  chain filter-FORWARD { type filter hook forward priority filter; oifname vmap @in; iifname vmap @out; }
  chain in__docker0 { ct state established,related counter accept; iifname "docker0" accept; counter drop comment "closed"; }
  chain out__docker0 { counter accept comment "outgoing"; }
  chain nat-POSTROUTING { type nat hook postrouting priority srcnat; ip saddr 172.17.0.0/16 oifname != "docker0" masquerade; }
}`;

/** The default zone has those links that no other has. */
export const FIREWALLD = `table inet firewalld {
  set known { type ifname; elements = { "eth9" }; }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    iifname @known accept
    ct state vmap { invalid : drop }
    ip6 daddr { ::/96, ::ffff:0:0/96 } log prefix "reserved" reject with icmpv6 type addr-unreachable
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD_ZONES {
    iifname "npl9*" goto filter_FWD_trusted
    oifname "npl9*" goto filter_FWD_trusted
    goto filter_FWD_public
  }
  chain filter_FWD_trusted { accept; }
  chain filter_FWD_public {
    jump filter_FWD_public_allow
    reject with icmpx admin-prohibited
  }
  chain filter_FWD_public_allow {
  }
  chain nat_PREROUTING { type nat hook prerouting priority dstnat + 10; }
}`;
