import { contentOf, ERROR, FLAG, FRAME, type Frame, Http2Error } from './http2-frames.ts';
import { HeaderDecoder, type HeaderField } from './hpack.ts';

/** Header blocks that are longer end the connection, so that frames without end cannot fill the memory. */
const MAX_HEADER_BYTES = 65_536;
/** Least size that a frame of a header block counts, also when it is empty. */
const FRAME_BYTES = 32;

export interface HeaderBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly fields: readonly HeaderField[];
}

/** A header block whose last frame is still to come. */
interface OpenBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly parts: Buffer[];
  bytes: number;
}

/** Puts the header blocks of one connection together and decodes them, in their order: they change the table of the decoder. */
export class HeaderBlocks {
  readonly #decoder = new HeaderDecoder();
  #open: OpenBlock | undefined;

  /** Checks that the frame does not interrupt a block. @throws Http2Error */
  check({ type, stream }: Frame): void {
    if (this.#open !== undefined && (type !== FRAME.continuation || stream !== this.#open.stream))
      throw new Http2Error(ERROR.protocol, 'a header block is interrupted');
  }

  /** Takes a frame with headers or a continuation, and returns the block that it completes. @throws Http2Error, HpackError */
  take(frame: Frame): HeaderBlock | undefined {
    const { type, flags, stream, payload } = frame;
    const part = type === FRAME.headers ? contentOf(frame) : payload;
    if (type === FRAME.headers)
      this.#open = { stream, endsStream: (flags & FLAG.endStream) !== 0, parts: [], bytes: 0 };
    const block = this.#open;
    if (block === undefined) throw new Http2Error(ERROR.protocol, 'a continuation of no header block');
    block.parts.push(part);
    block.bytes += part.length + FRAME_BYTES;
    if (block.bytes > MAX_HEADER_BYTES) throw new Http2Error(ERROR.calm, 'a header block is too long');
    if ((flags & FLAG.endHeaders) === 0) return undefined;
    this.#open = undefined;
    const [first = part, ...others] = block.parts;
    const bytes = others.length === 0 ? first : Buffer.concat(block.parts);
    return { stream: block.stream, endsStream: block.endsStream, fields: this.#decoder.decode(bytes) };
  }
}
