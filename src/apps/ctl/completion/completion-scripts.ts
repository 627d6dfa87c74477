/** For each shell, what makes it ask the tool itself for the words that could stand next. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export const COMPLETION_SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: String.raw`# Completion of netplugctl for bash: source <(netplugctl completion bash)
_netplugctl() {
  local word glue='' piece line directive=0
  local -a words=()
  # Bash takes words apart at "=" and ":"; the tool wants them whole.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ \${#words[@]} -gt 0 && ( $word == [=:] || -n $glue ) ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    glue=''
    [[ $word == [=:] ]] && glue=yes
  done
  piece=\${COMP_WORDS[COMP_CWORD]}
  [[ $piece == [=:] ]] && piece=''
  local stem=\${words[-1]%"$piece"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :* ]]; then
      directive=\${line#:}
    else
      line=\${line%%$'\t'*}
      COMPREPLY+=("\${line#"$stem"}")
    fi
  done < <("\${COMP_WORDS[0]}" complete -- "\${words[@]}" 2>/dev/null)
  (( directive & 2 )) && compopt -o nospace
  if ! (( directive & 4 )); then
    compopt -o filenames
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$piece")
  fi
  return 0
}
complete -F _netplugctl netplugctl kubectl-netplug
`.replaceAll('\\$', '$'),

  zsh: String.raw`#compdef netplugctl kubectl-netplug
# Completion of netplugctl for zsh: source <(netplugctl completion zsh), or put it into a folder of $fpath as _netplugctl
_netplugctl() {
  local line directive=0
  local -a candidates
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :* ]]; then
      directive=\${line#:}
    elif [[ $line == *$'\t'* ]]; then
      candidates+=("\${\${line%%$'\t'*}//:/\\:}:\${line#*$'\t'}")
    elif [[ -n $line ]]; then
      candidates+=("\${line//:/\\:}")
    fi
  done
  if (( directive & 2 )); then
    _describe -V netplugctl candidates -S ''
  else
    _describe -V netplugctl candidates
  fi
  if ! (( directive & 4 )); then
    _files
  fi
}
if [[ \${funcstack[1]} == _netplugctl ]]; then
  _netplugctl "$@"
else
  compdef _netplugctl netplugctl kubectl-netplug
fi
`.replaceAll('\\$', '$'),

  fish: String.raw`# Completion of netplugctl for fish: netplugctl completion fish | source
function __netplugctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l directive 0
    for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
        if string match -q ':*' -- $line
            set directive (string sub -s 2 -- $line)
        else
            echo $line
        end
    end
    if test (math "bitand($directive, 4)") -eq 0
        __fish_complete_path $current
    end
end
complete -c netplugctl -f -a '(__netplugctl_complete)'
complete -c kubectl-netplug -f -a '(__netplugctl_complete)'
`,
};
