"""Abstracts of molecular biology.

A symbol is a gene where it is expressed, transcribed, mutated, deleted or mapped, and before
"gene", "promoter" and the like; a protein where it binds, cleaves, is purified, secreted or stained,
and before "receptor", "kinase domain" and "inhibitor"; a drug where it is dosed; and nothing at all
as a plasmid, a buffer or a strain. Cells take the words for their origin and state.
"""

from __future__ import annotations

from spanloom.samples.everyday import EVERYDAY, words
from spanloom.samples.grammar import Domain

_RULES: dict[str, tuple[str, ...]] = {
    "state": words(
        "activated resting cultured primary irradiated starved stimulated transfected dividing quiescent "
        "infected thawed immortalised isolated"
    ),
    "origin": words(
        "human murine rat bovine porcine ovine canine feline equine rabbit hamster simian avian neonatal foetal adult"
    ),
    "cell_mod": ("{state} {origin}", "{state} {origin}", "{origin}"),
    "kind": words(
        "T B NK mast dendritic epithelial endothelial stem stromal progenitor plasma mesothelial myeloid lymphoid glial"
    ),
    "cells": (
        "{kind} cells",
        "{kind} cells",
        "fibroblasts",
        "macrophages",
        "monocytes",
        "neurons",
        "keratinocytes",
        "astrocytes",
        "neutrophils",
        "lymphocytes",
        "myoblasts",
    ),
    "cell": ("[Cell {cell_mod!} {cells} ]", "[Cell {cell_mod!} {cells} ]", "[Cell {code} cells ]"),
    "gene": ("[Gene {code} ]",),
    "protein": ("[Protein {code} ]",),
    "drug": ("[Drug {code} ]", "[Drug {code} ]", "[Drug {generic} ]"),
    "part": ("receptor", "kinase domain", "heavy chain", "zinc finger region", "precursor", "dimer"),
    "element": ("promoter", "enhancer", "locus", "coding region", "promoter region", "intron"),
    "elements": ("promoters", "enhancers", "loci", "coding regions", "introns"),
    "region": words("anterior posterior dorsal ventral inner outer upper lower central peripheral"),
    "organ": words(
        "thymus spleen liver retina cerebellum hippocampus colon pancreas kidney lung cortex ileum aorta "
        "uterus trachea cochlea hypothalamus brainstem stomach ovary thyroid bladder skin tongue duodenum "
        "jejunum olfactory_bulb spinal_cord bone_marrow heart prostate oesophagus salivary_gland "
        "adrenal_gland"
    ),
    "tissue": ("[Anatomy {organ} ]", "[Anatomy {region} {organ} ]", "[Anatomy {region} {organ} ]"),
    "form": words("familial juvenile congenital hereditary atypical chronic refractory late-onset"),
    "illness": words(
        "anaemia epilepsy leukaemia lymphoma cardiomyopathy neuropathy myopathy deafness retinopathy "
        "nephropathy thrombosis melanoma obesity colitis dystonia ataxia gout dementia cystic_fibrosis "
        "glaucoma"
    ),
    "disease": ("[Finding {form} {illness} ]",),
    "fold": ("doubled", "fell by half", "rose {few} fold", "did not change", "reached its peak"),
    "after": ("after {2-72} hours", "within {5-90} minutes", "at {20-39} degrees", "on day {2-30}"),
    "amount": ("{2-95} nM", "{2-50} micromolar", "{0-9}.{1-9} mM"),
    "many": ("{12-98}", "{100-480}"),
    "hint": (
        "as expected ,",
        "in contrast ,",
        "notably ,",
        "under these conditions ,",
        "in a second series of experiments ,",
    ),
    "growth": ("slowed the growth of", "had no effect on", "reduced the survival of", "halted the division of"),
    "supplier": ("[Organization {name} ]", "[Organization {name} Biosciences ]", "[Organization {name} Reagents ]"),
    "aside": (", to a lesser degree ,", ", more weakly ,", ", surprisingly ,"),
    "arm": ("long", "short"),
}

_OPENINGS = (
    "the function of the protein encoded by {gene} is not known .",
    "we asked how expression of {gene} is controlled in {cell} .",
    "{disease} has been linked to mutations in {gene} .",
    "we report that {protein} binds to {protein} in {cell} .",
    "little is known of how {drug} , given at {amount} , acts on {cell} .",
)

_FLAT = (
    "expression of {gene} {fold} in {cell} .",
    "{hint?} expression of {gene} {fold} in the {tissue} .",
    "{hint?} expression of {gene} and {gene} {fold} {after} .",
    "{protein} bound to {protein} in vitro and in {cell} .",
    "{gene} mRNA was detected in {cell} but not in {cell} .",
    "{hint?} {protein} phosphorylates {protein} at serine {100-490} .",
    "deletion of {gene} {growth} {cell} .",
    "{hint?} treatment with {amount} {drug} {growth} {cell} .",
    "antibodies against {protein} stained {cell} strongly {after} .",
    "point mutations in {gene} were found in {many} families with {disease} .",
    "recombinant {protein} was purified from {cell} .",
    "{gene} maps to chromosome {1-22} and is transcribed in the {tissue} .",
    "binding of {protein} to {protein} was blocked by {amount} {drug} .",
    "{drug} , given orally at {5-50} mg per kg , slowed {disease} in mice .",
    "{cell} secreted {protein} {after} .",
    "plasmid {code} was a gift from {person} .",
    "{cell} were washed in buffer {code} and treated with {amount} {drug} .",
    "{cell} were infected with strain {code} , which lacks {gene} .",
    "{cell} were purchased from {supplier} and used {after} .",
    "sections of the {tissue} were stained for {protein} .",
    "transcription of {gene} requires binding of {protein} {after} .",
    "co-immunoprecipitation showed that {protein} interacts with {protein} .",
)

_DEEP = (
    "the [Gene [Protein [Protein {code} ] receptor ] gene promoter region ] was cloned from {cell} .",
    "the [Gene {gene} {element} ] was active in {cell} but not in the {tissue} .",
    "{protein} bound to the [Gene {gene} {element} ] {after} .",
    "the [Protein {protein} {part} ] interacts with {protein} in {cell} .",
    "{hint?} {drug} , given at {amount} , inhibited the [Protein {protein} {part} ] .",
    "[Cell {cell_mod!} {cells} lacking {gene} ] did not respond to {amount} {drug} .",
    "the [Drug {protein} inhibitor ] {growth} {cell} {after} .",
    "mutations in the [Gene [Protein [Protein {code} ] receptor ] gene ] were found in {many} families with "
    "{disease} .",
    "antibodies against the [Protein {protein} {part} ] stained the {tissue} .",
    "deletion of the [Gene {region} enhancer element {10-95} kb upstream of the [Gene [Protein [Protein {code} ] "
    "receptor ] gene ] on the {arm} arm of chromosome {1-22} ] {growth} {cell} .",
    "we purified the [Protein heterodimeric complex of the [Protein {protein} {part} ] and the [Protein {protein} "
    "{part} ] ] from {cell} .",
    "[Cell {cell_mod!} {cells} from the {tissue} of mice that lack both copies of {gene} ] secreted {protein} .",
)

_BROKEN = (
    "the [1:Gene {gene} ] and [2:Gene {gene} ] [1,2:Gene {elements} ] were active in {cell} .",
    "the [1:Gene [3:Protein {protein} ] ] and [2:Gene [4:Protein {protein} ] ] [1,2:Gene [3,4:Protein receptor ] "
    "genes ] were sequenced in {many} patients .",
    "{hint?} {protein} was secreted by [1,2:Cell {cell_mod!} ] [1:Cell {kind} ] and [2:Cell {kind} ] [1,2:Cell "
    "cells ] .",
    "[1,2,3:Cell {cell_mod!} ] [1:Cell {kind} ] , [2:Cell {kind} ] and [3:Cell {kind} ] [1,2,3:Cell cells ] were "
    "treated with {amount} {drug} .",
    "the [1:Drug {protein} ] and [2:Drug {protein} ] [1,2:Drug inhibitors ] {growth} {cell} .",
    "antibodies against the [1:Protein {protein} ] and {aside?} [2:Protein {protein} ] [1,2:Protein receptors ] "
    "stained {cell} .",
    "expression of {gene} {fold} in [1,2:Cell {cell_mod!} ] [1:Cell {kind} ] and {aside?} [2:Cell {kind} ] "
    "[1,2:Cell cells ] .",
)

_PLAIN = (
    "all experiments were repeated {few} times with {3-30} samples each .",
    "samples were spun at {2-15},000 rpm for {3-45} minutes .",
    "values are the mean of {3-12} runs , and bars show the standard error .",
    "plates were kept at {20-37} degrees and read at {400-690} nm .",
    "the control arm of the study had {20-95} members , and {2-19} of them withdrew .",
    "gels were run in buffer {code} at {60-180} volts .",
    "plasmid {code} was cut twice and run on a gel of {1-4} percent .",
    "strain {code} grew on plates within {12-72} hours .",
    "the {name} method gave a yield of {11-96} percent .",
    "images were taken with a {name} camera at {10-99} frames per second .",
    "at the heart of the model lies an equation with {few} terms and {2-40} constants .",
)

LAB = Domain("lab", _OPENINGS, _FLAT, _DEEP, _BROKEN, _PLAIN, {**EVERYDAY, **_RULES})
