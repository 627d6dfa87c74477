import { decodeNetconf, type ReadAs } from '../../config/decode.ts';
import type { Netconf } from '../../config/netconf.ts';

const KEPT = 32;
/** Longer texts contain fields of one call, such as all valid attachments, and are not cached. */
const LONGEST = 16_384;

/** Caches decoded network configurations, which are the same for many pods. */
export class DecodedNetconfs {
  readonly #known = new Map<string, Netconf>();

  /** @throws what decoding a network configuration throws */
  decode(raw: unknown, { as, text }: { readonly as: ReadAs; readonly text: string }): Netconf {
    const key = `${as} ${text}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const config = decodeNetconf(raw, as);
    if (text.length > LONGEST) return config;
    const [oldest] = this.#known.keys();
    if (this.#known.size >= KEPT && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(key, config);
    return config;
  }
}
