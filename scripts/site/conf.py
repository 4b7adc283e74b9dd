# How Sphinx makes the documentation site; scripts/make-site lays its pages out and calls it.
project = "weft"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_enable_extensions = []
myst_heading_anchors = 5  # the anchors that links name, as GitHub makes them
html_theme = "furo"
html_title = "weft"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]  # the explorer's page
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False  # the licence is a page
copybutton_prompt_text = "$ "
highlight_language = "none"  # blocks without a language are terminals
