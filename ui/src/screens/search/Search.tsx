// `/search?q=`: the same as the search field, as a page that can be linked to.
import { useEffect } from "preact/hooks";
import { place } from "../../router.ts";
import { Search } from "../../shell/Palette.tsx";
import { words } from "../../words/en.ts";
import { operators } from "../../words/operators.ts";

export default function SearchPage() {
  useEffect(() => {
    document.title = `${operators.search.title} · ${words.product}`;
  }, []);
  return (
    <section class="screen narrow">
      <header class="head">
        <h1>{operators.search.title}</h1>
      </header>
      <Search begin={place.value.query.get("q") ?? ""} />
    </section>
  );
}
