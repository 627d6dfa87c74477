/** connect's declarations name this DOM type, which Node's own declarations leave out. */
type HeadersInit = ConstructorParameters<typeof Headers>[0];
