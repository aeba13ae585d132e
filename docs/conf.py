"""How Sphinx builds these pages: `make docs`, or `sphinx-build -W --keep-going -n docs out`.

Nothing is fetched while building and nothing when reading: equations are MathML, fonts and scripts
come with the theme, figures are drawn by the scripts in gallery/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import eigengap
from eigengap.registry import ESTIMATORS

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))
sys.path.insert(0, str(DOCS / "gallery"))

# The reference lists the estimators of the registry, by family.
reference = (DOCS / "api.rst.in").read_text(encoding="utf-8")
for family in {entry.family for entry in ESTIMATORS}:
    names = "\n   ".join(entry.name for entry in ESTIMATORS if entry.family == family)
    reference = reference.replace(f"@{family}@", names)
(DOCS / "api.rst").write_text(reference, encoding="utf-8")

project = "eigengap"
author = "The eigengap developers"
project_copyright = "The eigengap developers"
version = release = eigengap.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # our own, in _extensions/
    "mathml",  # equations that a browser sets by itself
    "narrow_pages",  # boxes and tables that fit their page
    "public_names",  # `PCA` in a docstring links to it; every public name has a page
    "repository_links",  # links out of docs/ that work on GitHub work here too
]
exclude_patterns = ["_build", "gallery", "**/README.md", "**/GALLERY_HEADER.rst"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = ["config.cache"]  # the gallery's functions cannot be pickled

# --- Markdown ------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3  # [text](page.md#section), as on GitHub
myst_dmath_allow_digits = False
myst_dmath_double_inline = True

# --- API -----------------------------------------------------------------------------------------
add_module_names = False
autodoc_typehints = "none"  # the docstrings have the types, in words
autodoc_class_signature = "mixed"
autodoc_member_order = "groupwise"
autosummary_generate = True
autosummary_imported_members = True
numpydoc_show_class_members = False  # the class template lists them, each once, on one page
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
default_role = "eigengap-name"

# --- pages ---------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "eigengap"
html_static_path = ["_static"]
html_css_files = ["eigengap.css"]
html_logo = "_static/eigengap.svg"
html_favicon = "_static/eigengap.svg"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "eigengap"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": []}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- gallery -------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/_|__init__",
    "subsection_order": "gallery_order.subsection",
    "within_subsection_order": "gallery_order.Example",
    "image_scrapers": ("figure_pair.scrape",),
    "reset_modules": ("figure_pair.reset",),
    "abort_on_example_error": True,  # a claim that no longer holds stops the build
    "plot_gallery": "True",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,  # seconds of a shared machine say nothing
    "write_computation_times": False,
    "remove_config_comments": True,
    "doc_module": ("eigengap",),
    "backreferences_dir": "auto_gallery/uses",
    "reference_url": {"eigengap": None},
    "inspect_global_variables": False,
    "capture_repr": (),
    "default_thumb_file": str(DOCS / "_static" / "eigengap.svg"),
}
