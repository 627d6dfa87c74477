/** Numbers of nf_tables. */
import type { FilterHook } from '../policy-filter.ts';

export const NFNL_MSG_BATCH_BEGIN = 16;
export const NFNL_MSG_BATCH_END = 17;
export const NFNL_SUBSYS_NFTABLES = 10;
/** The kernel's numbers of families that have tables. */
export const FAMILY_NUMBERS: Readonly<Record<string, number>> = {
  inet: 1,
  ip: 2,
  arp: 3,
  netdev: 5,
  bridge: 7,
  ip6: 10,
};
export const [NFPROTO_UNSPEC, NFPROTO_INET] = [0, 1];
export const NFGENMSG_BYTES = 4;

export const NFT_MSG = {
  NEWTABLE: 0,
  GETTABLE: 1,
  DELTABLE: 2,
  NEWCHAIN: 3,
  GETCHAIN: 4,
  DELCHAIN: 5,
  NEWRULE: 6,
  GETRULE: 7,
  DELRULE: 8,
  NEWSET: 9,
  GETSET: 10,
  DELSET: 11,
  NEWSETELEM: 12,
  GETSETELEM: 13,
  DELSETELEM: 14,
} as const;

export const NFTA_TABLE = { NAME: 1, FLAGS: 2 } as const;
/** The hooks of its chains are not in force. */
export const NFT_TABLE_F_DORMANT = 0x1;
/** The table is removed with the socket that made it. */
export const NFT_TABLE_F_OWNER = 0x2;
export const NFTA_CHAIN = { TABLE: 1, NAME: 3, HOOK: 4, POLICY: 5, TYPE: 7 } as const;
export const NFTA_HOOK = { HOOKNUM: 1, PRIORITY: 2 } as const;
export const NFTA_RULE = { TABLE: 1, CHAIN: 2, HANDLE: 3, EXPRESSIONS: 4, USERDATA: 7 } as const;
export const NFTA_SET = {
  TABLE: 1,
  NAME: 2,
  FLAGS: 3,
  KEY_TYPE: 4,
  KEY_LEN: 5,
  DATA_TYPE: 6,
  DATA_LEN: 7,
  DESC: 9,
  ID: 10,
  TIMEOUT: 11,
} as const;
export const NFTA_SET_DESC_SIZE = 1;
export const NFTA_SET_ELEM = { KEY: 1, DATA: 2, FLAGS: 3, TIMEOUT: 4, EXPIRATION: 5, KEY_END: 10 } as const;
export const NFT_SET_ELEM_INTERVAL_END = 1;
/** Of lists, and of the values, verdicts and expressions in them. */
export const NFTA_LIST_ELEM = 1;
export const NFTA_DATA = { VALUE: 1, VERDICT: 2 } as const;
export const NFTA_VERDICT = { CODE: 1, CHAIN: 2 } as const;
export const NFTA_EXPR = { NAME: 1, DATA: 2 } as const;
export const NFTA_SET_ELEM_LIST = { TABLE: 1, SET: 2, ELEMENTS: 3, SET_ID: 4 } as const;
export const NLM_F_APPEND = 0x800;

export const NFT_SET_ANONYMOUS = 0x1;
export const NFT_SET_CONSTANT = 0x2;
export const NFT_SET_INTERVAL = 0x4;
export const NFT_SET_MAP = 0x8;
export const NFT_SET_TIMEOUT = 0x10;
export const NFT_SET_EVAL = 0x20;
export const NFT_DATA_VERDICT = 0xffffff00;
export const VERDICT_BYTES = 16;
export const NF_ACCEPT = 1;

export const NFTNL_UDATA_RULE_COMMENT = 0;

/** The kernel numbers hooks in the order in which packets pass them. */
export const HOOKS: readonly FilterHook['hook'][] = ['prerouting', 'input', 'forward', 'output', 'postrouting'];
