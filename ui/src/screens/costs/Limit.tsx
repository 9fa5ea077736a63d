// How much of a limit is used: a bar, and the same in words.

export function Limit({ name, used, most, said }: { name: string; used: number; most: number; said: string }) {
  return (
    <p class="limit">
      <span class="soft">{name}</span>
      <meter min={0} max={Math.max(most, 1e-9)} value={Math.min(used, most)} high={most * 0.8} aria-label={name} />
      <span class={used >= most ? "number bad" : "number"}>{said}</span>
    </p>
  );
}
