import { decodeAttributes, type Message, NLM_F_ACK } from './netlink.ts';
import type { NftSocket } from './nft-socket.ts';

const NFT_MSG_GETGEN = (10 << 8) | 16;
const NFTA_GEN_ID = 1;
const NFGENMSG_BYTES = 4;
/** Request for the generation of all families. */
const GET_GENERATION: Message = { type: NFT_MSG_GETGEN, flags: NLM_F_ACK, body: Buffer.alloc(NFGENMSG_BYTES) };

/**
 * Returns the number that the kernel increases whenever any table of the network namespace changes; undefined when the kernel
 * does not tell, of which nft says why.
 */
export async function readGeneration(socket: NftSocket): Promise<number | undefined> {
  const [body] = await socket.list('read the generation of nftables', GET_GENERATION).catch(() => []);
  return body === undefined
    ? undefined
    : decodeAttributes(body.subarray(NFGENMSG_BYTES)).get(NFTA_GEN_ID)?.readUInt32BE();
}
