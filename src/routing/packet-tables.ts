import { NAT_TABLE } from './nat-table.ts';

/** The names of all nftables tables, of family `inet`, that the agent makes on a host. */
export const PACKET_TABLES: readonly string[] = [NAT_TABLE];
