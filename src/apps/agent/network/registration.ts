export interface RegistrationPorts {
  /** Writes what the plugin reads: the MTU for pods first, the node's name last. */
  readonly register: (offer: { readonly mtu: number | undefined }) => Promise<void>;
}

/** Registers the node once its network works. A later failure does not undo that. */
export class Registration {
  readonly #ports: RegistrationPorts;
  /** The offer that was written since the network failed last, in bytes. */
  #offered: { readonly mtu: number | undefined } | undefined;
  #isDone = false;

  constructor(ports: RegistrationPorts) {
    this.#ports = ports;
  }

  /** Whether the node was registered once. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** Registers the node unless its network fails or nothing has changed. `mtu` in bytes. @throws the file system's error */
  async register({ isFailing, mtu }: { readonly isFailing: boolean; readonly mtu: number | undefined }): Promise<void> {
    if (isFailing) {
      this.#offered = undefined;
      return;
    }
    if (this.#offered !== undefined && this.#offered.mtu === mtu) return;
    await this.#ports.register({ mtu });
    this.#offered = { mtu };
    this.#isDone = true;
  }
}
