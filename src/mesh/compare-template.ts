import { isNewerVersion } from '../base/compare-versions.ts';
import { isNetplugError, reasonOf } from '../base/errors.ts';
import { VERSION } from '../base/version.ts';
import { releaseIn } from '../model/image-release.ts';
import { findTemplate, injectionTemplate, templateImage, type TemplateOptions } from './injection-template.ts';

/** The template of an injector, beside that of this release. */
export type TemplateState =
  | { readonly kind: 'current' | 'missing' | 'other' }
  | { readonly kind: 'older' | 'newer'; readonly release: string }
  | { readonly kind: 'unreadable'; readonly why: string };

/** Compares the template in the configuration of an injector with the one that this release renders for its mesh. */
export function compareTemplate(config: string, options: TemplateOptions): TemplateState {
  try {
    const found = findTemplate(config);
    if (found === undefined) return { kind: 'missing' };
    if (found.trimEnd() === injectionTemplate(options).trimEnd()) return { kind: 'current' };
    const release = releaseIn(templateImage(found));
    if (release === undefined) return { kind: 'other' };
    if (isNewerVersion(release, VERSION)) return { kind: 'newer', release };
    return isNewerVersion(VERSION, release) ? { kind: 'older', release } : { kind: 'other' };
  } catch (cause) {
    if (!isNetplugError(cause, 'mesh/config-unreadable', 'mesh/version-unsupported')) throw cause;
    return { kind: 'unreadable', why: reasonOf(cause) };
  }
}
