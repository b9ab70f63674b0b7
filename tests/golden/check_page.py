"""check_page.py FILE WORD...: complaints about a page: tags that do not match, anything loaded from elsewhere, ids that
stand twice, a plot or picture without words, or a word that is missing."""
import html.parser
import sys

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.texts, self.complaints = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.see(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.see(tag, dict(attrs))

    def see(self, tag, attrs):
        for name, value in attrs.items():
            if name in ("src", "href", "xlink:href", "action") and not (value or "").startswith("#"):
                self.complaints.append(f"<{tag} {name}={value!r}> is loaded from elsewhere")
        if tag in ("script", "iframe", "object", "link", "img"):
            self.complaints.append(f"there is a <{tag}>")
        if "id" in attrs and attrs["id"] in self.ids:
            self.complaints.append(f"the id {attrs['id']} stands twice")
        self.ids.add(attrs.get("id"))
        if tag == "svg" and not set(attrs.get("aria-labelledby", "?").split()):
            self.complaints.append("a plot without words")
        for one in attrs.get("aria-labelledby", "").split():
            self.texts.append("#" + one)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}> at {self.getpos()} closes nothing")

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] == "style" and ("url(" in data or "@import" in data):
            self.complaints.append("the style loads something")


def main():
    page = Page()
    with open(sys.argv[1], encoding="utf-8") as file:
        page.feed(file.read())
    said = " ".join(t for t in page.texts if not t.startswith("#"))
    page.complaints += [f"<{tag}> is not closed" for tag in page.open]
    page.complaints += [f"{t} labels a plot and is not there" for t in page.texts if t.startswith("#") and " " not in t
                        and t[1:] not in page.ids and t.startswith("#p")]
    page.complaints += [f"'{word}' is not on it" for word in sys.argv[2:] if word not in said]
    print("\n".join(page.complaints), end="")


main()
