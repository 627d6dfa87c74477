import type { SourceCheck } from '../../../dataplane/kernel.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Family } from '../../../net/address.ts';
import type { Detection } from '../../../routing/detect-address-method.ts';
import type { BlockSource } from '../../../routing/membership.ts';

/** The settings of the node's network from the environment of the agent. */
export interface NetworkSettings {
  readonly node: NodeName;
  readonly detection: Readonly<Record<Family, Detection>>;
  readonly blockSource: BlockSource;
  readonly sourceCheck: SourceCheck;
  /** Links that the host may get before BIRD is restarted; 0 for never. */
  readonly birdLinks: number;
  /** Names the setting behind a variable of the agent, as the user of this installation knows it. */
  readonly settingName: (variable: string) => string;
}
