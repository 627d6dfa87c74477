import { SYSTEM_NAMESPACE } from '../names.ts';
import { at, showFound } from '../../../base/problem.ts';
import { type FieldStep, pathText } from '../../../kube/objects/diff.ts';
import type { ManifestEdit } from '../edits/edit.ts';
import { findEdits } from '../edits/find-edits.ts';
import { closestKind, ownPristine } from '../edits/like.ts';
import { containersOf, type NamedDocument, type ReportRemark } from './named-document.ts';

/** Removing these is an edit; without anything else of a release, its programs fail. */
const OPTIONAL_KEYS = new Set([
  'resources',
  'tolerations',
  'annotations',
  'labels',
  'priorityClassName',
  'description',
  // The tag tells the release.
  'digest',
]);
const OPTIONAL_OBJECTS = new Set([
  'ClusterRole netplug-viewer',
  'ClusterRole netplug-admin',
  'ClusterRole netplug-installer',
  'ClusterRole netplug-use-floating-ips',
  'ClusterRole netplug-use-ip-addrs-no-ipam',
  `Role ${SYSTEM_NAMESPACE}/netplug-agent-passwords`,
  `RoleBinding ${SYSTEM_NAMESPACE}/netplug-agent-passwords`,
]);
/** The most differences that are listed for one object. */
const SHOWN = 5;

/** Reports what the manifest lacks of the manifest of the release that it is most like, and images of other releases. */
export function compareWithRelease(
  named: readonly NamedDocument[],
  { release, report }: { readonly release: string; readonly report: ReportRemark },
): void {
  const objects = named.map(({ value }) => value);
  checkImages(named, { release, report });
  const kind = closestKind(objects, { wanted: {}, release });
  const places = new Map(named.map(({ key, index }) => [key, index]));
  const shown = new Map<string, number>();
  for (const edit of findEdits(ownPristine(kind, objects, release), objects)) {
    const { object, path, was, is } = edit;
    const document = places.get(object);
    if (document === undefined) {
      if (path.length > 0 || was === undefined || isAbsentOnPurpose(object)) continue;
      const hint = `add it from the manifest that "netplugctl install manifest" prints`;
      report({ document: 0, path: '', message: `${object} of release ${release} is missing`, hint });
      continue;
    }
    const message = mistakeIn(edit);
    if (message === undefined) continue;
    const count = (shown.get(object) ?? 0) + 1;
    shown.set(object, count);
    if (count === SHOWN + 1) report({ document, path: '', message: 'has further differences from the release' });
    if (count > SHOWN) continue;
    const hint = `restore what release ${release} has: ${was === undefined ? 'nothing' : showFound(was)}`;
    report({ document, path: realPath(path, is), message, hint });
  }
}

/** Pools may be created otherwise, and roles for users and admission policies left out. */
function isAbsentOnPurpose(object: string): boolean {
  return OPTIONAL_OBJECTS.has(object) || /^(IPPool|Secret|ValidatingAdmissionPolicy(Binding)?) /.test(object);
}

function checkImages(
  named: readonly NamedDocument[],
  { release, report }: { readonly release: string; readonly report: ReportRemark },
): void {
  for (const { value, index } of named) {
    for (const { container, path } of containersOf(value)) {
      const { image } = container;
      const [, name, tag] = typeof image === 'string' ? (/([^/:@]+)(?::([^/@]+))?(?:@.*)?$/.exec(image) ?? []) : [];
      if (name?.startsWith('netplug') !== true || tag === release) continue;
      const hint = `use the tag ${release}, or "netplugctl" of the release of the images`;
      report({
        document: index,
        path: at(path, 'image'),
        message: `found ${showFound(image)}, this is release ${release}`,
        hint,
      });
    }
  }
}

/** Returns what is wrong with the edit; undefined for an edit that users may make. */
function mistakeIn({ object, path, was, is }: ManifestEdit): string | undefined {
  const last = path.at(-1);
  if (path.includes('selector'))
    return 'Kubernetes refuses another selector, and the pods of the release have this one';
  if (path.length === 2 && path[0] === 'metadata' && last === 'namespace') {
    return `found ${showFound(is)}, the programs expect ${showFound(was)}`;
  }
  if (is !== undefined || was === undefined) return undefined;
  if (object.startsWith('IPPool ') || path.some((step) => typeof step === 'string' && OPTIONAL_KEYS.has(step)))
    return undefined;
  return `${pathText(path)} is missing`;
}

/** Returns the part of the path that the document has. */
function realPath(path: readonly FieldStep[], is: unknown): string {
  const existing = is === undefined ? path.slice(0, -1) : path;
  const cut = existing.findIndex((step) => typeof step !== 'string');
  return pathText(cut === -1 ? existing : existing.slice(0, cut));
}
