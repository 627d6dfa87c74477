import { NAT_TABLE } from './nat-table.ts';
import { POD_TABLE } from './pod-table.ts';
import { TUNNEL_TABLE } from './tunnel-table.ts';

/** The names of all nftables tables, of family `inet`, that the agent creates on a host. */
export const PACKET_TABLES: readonly string[] = [NAT_TABLE, POD_TABLE, TUNNEL_TABLE];
