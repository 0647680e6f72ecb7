"""Clinical notes.

What belongs to an entity: a finding takes its adjectives and, with "in the" or before an ache, the
part of the body; a procedure takes its adjectives and "of the" part; a drug stands without its
dose, a person without a title, and nothing takes its article.
"""

from __future__ import annotations

from spanloom.samples.everyday import EVERYDAY, words
from spanloom.samples.grammar import Domain

_RULES: dict[str, tuple[str, ...]] = {
    "side": ("left", "right"),
    "paired": words(
        "knee hip shoulder ankle wrist elbow foot hand ear eye calf thigh forearm heel thumb breast groin "
        "flank temple cheek armpit buttock shin collarbone knuckle toe eyebrow eyelid palm sole nostril"
    ),
    "pair": words(
        "knees hips shoulders ankles wrists elbows feet hands ears eyes calves thighs forearms heels thumbs "
        "breasts temples cheeks shins legs arms toes fingers eyelids lips palms soles gums knuckles buttocks "
        "armpits"
    ),
    "limb": words("thigh calf forearm knee ankle wrist elbow shoulder foot hand"),
    "region": ("medial", "lateral", "anterior", "posterior", "inner", "outer"),
    "bone": ("[Anatomy {side} {end} {long_bone} ]", "[Anatomy {side} {long_bone} ]"),
    "end": ("distal", "proximal"),
    "long_bone": words("femur tibia humerus radius ulna fibula"),
    "middle": words(
        "chest abdomen neck sacrum rib_cage soft_palate hard_palate windpipe small_bowel appendix nape "
        "upper_chest lower_back upper_back scalp throat pelvis bladder jaw tongue nose lumbar_spine "
        "cervical_spine thoracic_spine breastbone tailbone forehead upper_abdomen lower_abdomen stomach liver "
        "spleen pancreas gallbladder thyroid chin navel upper_jaw lower_jaw rectum perineum upper_lip "
        "lower_lip"
    ),
    "anatomy": (
        "[Anatomy {side} {paired} ]",
        "[Anatomy {side} {paired} ]",
        "[Anatomy {side} {region} {limb} ]",
        "[Anatomy {middle} ]",
    ),
    "lateral": ("[Anatomy {side} {paired} ]", "[Anatomy {side} {region} {limb} ]"),
    "tissue": words(
        "joint muscle chest back neck hip shoulder knee jaw bone leg arm foot ankle wrist elbow calf thigh "
        "abdominal pelvic facial rib groin tendon ear throat finger toe thumb shin heel forearm hamstring gum "
        "breast tailbone buttock"
    ),
    "symptom": words(
        "fever nausea vomiting dizziness fatigue insomnia headache drowsiness constipation diarrhoea itching "
        "sweating breathlessness cough anaemia jaundice hypertension pneumonia delirium migraine asthma gout "
        "dehydration tinnitus vertigo syncope bradycardia tachycardia hypotension anxiety depression "
        "weight_loss bronchitis confusion heartburn hoarseness hyponatraemia hypokalaemia hypothermia "
        "wheezing memory_loss blurred_vision double_vision night_sweats low_mood loss_of_appetite angina "
        "psoriasis eczema arthritis cystitis sinusitis tonsillitis epilepsy colitis gastritis hepatitis "
        "pancreatitis incontinence"
    ),
    "grade": words(
        "mild moderate severe intermittent persistent recurrent worsening sudden occasional transient marked "
        "chronic acute"
    ),
    "finding": (
        "[Finding {symptom} ]",
        "[Finding {grade} {symptom} ]",
        "[Finding {grade} {symptom} ]",
    ),
    "sensation": words("pain numbness tingling weakness stiffness burning cramping discomfort itching"),
    "ache": ("pain", "swelling", "tenderness", "stiffness", "weakness"),
    "local": (
        "[Finding {grade?} {sensation} in the {anatomy} ]",
        "[Finding {grade?} {sensation} in the {anatomy} ]",
        "[Finding {grade?} {lateral} {ache} ]",
    ),
    "trouble": (
        "that grows worse at night and after long walks",
        "that came on while lifting heavy boxes at work",
        "that wakes {him} in the early hours of the morning",
        "that began {few} days ago and has spread slowly since",
        "that comes and goes but never lasts more than an hour",
    ),
    "timing": words("elective urgent repeat diagnostic emergency routine planned"),
    "operation": words(
        "colonoscopy cardioversion rhinoplasty keyhole_surgery coronary_stenting gallstone_removal "
        "appendectomy cholecystectomy bronchoscopy echocardiography lumbar_puncture haemodialysis "
        "cataract_surgery angiography cystoscopy thyroidectomy tonsillectomy splenectomy mastectomy "
        "hernia_repair skin_grafting blood_transfusion angioplasty bypass_surgery nephrectomy spirometry "
        "electromyography mammography"
    ),
    "procedure": (
        "[Procedure {operation} ]",
        "[Procedure {timing} {operation} ]",
        "[Procedure {timing} {operation} ]",
        "[Procedure {timing} {operation} ]",
    ),
    "imaging": ("MRI", "CT", "ultrasound", "radiography", "biopsy"),
    "scan": ("[Procedure {timing?} {imaging} of the {anatomy} ]",),
    "drug": ("[Drug {name} ]", "[Drug {name} ]", "[Drug {generic} ]"),
    "dose": ("{1-16}0 mg", "{1-9}5 mg", "{1-9}00 mg", "{2-9}.5 mg", "{1-9}0 micrograms"),
    "often": ("once daily", "twice daily", "every {4-12} hours", "at bedtime", "with meals"),
    "when": (
        "on {weekday}",
        "on {month} {1-28}",
        "in {month}",
        "{few} days ago",
        "this morning",
        "overnight",
        "last week",
    ),
    "year": ("{1998-2025}",),
    "reason": ("for {finding}",),
    "opener": ("{few} days after the operation ,", "on the ward round ,", "at the clinic ,", "at follow-up ,"),
    "relative": words("neighbour cousin partner flatmate colleague friend carer sibling"),
    "role": ("surgeon on call", "ward pharmacist", "family doctor", "physiotherapist", "night nurse", "dietitian"),
    "job": ("driver", "welder", "cook", "school teacher", "cleaner", "machine operator", "clerk", "electrician"),
    "specialty": (
        "Cardiology",
        "Neurology",
        "Dermatology",
        "Surgery",
        "Geriatric Medicine",
        "Haematology",
        "Respiratory Medicine",
        "Rheumatology",
    ),
    "unit": ("General Hospital", "University Hospital", "Community Hospital", "Children 's Hospital"),
    "hospital": ("[Organization [Place {name} ] {unit} ]",),
    "clinic": (
        "[Organization {name} Clinic ]",
        "[Organization {name} Health Centre ]",
        "[Organization {name} Medical Centre ]",
    ),
    "aside": (", to a lesser degree ,", ", less often ,", ", more recently ,", ", in the last few days ,"),
    "onset": (
        "which began after a fall",
        "which had started {when}",
        "constant since {month}",
        "first noticed {when}",
        "which comes and goes",
    ),
}

_OPENINGS = (
    "a {18-92}-year-old {man} presented with {finding} and {finding} .",
    "{the_patient} , a {18-92}-year-old {job} from [Place {name} ] , was admitted with {finding} .",
    "this {18-92}-year-old {man} was seen by Dr [Person {name} ] {when} because of {finding} .",
    "{the_patient} is a retired {job} with a history of {finding} who takes {drug} {dose} {often} .",
    "a {18-92}-year-old {job} was admitted {when} with {finding} after {procedure} at the {clinic} .",
)

_FLAT = (
    "{the_patient} was started on {drug} {dose} {often} {reason?} .",
    "{drug} {dose} {often} was added {when} {reason?} .",
    "{he} is allergic to {drug} , which caused {finding} in {year} .",
    "{drug} was stopped {when} because of {finding} .",
    "{he} denies {plain_list} .",
    "Dr [Person {name} ] reviewed the results {when} and agreed with the plan for {procedure} .",
    "{opener?} {he} was seen by Dr [Person {name} ] for {finding} .",
    "{his} {relative} , {person} , reported {finding} at home {when} .",
    "{opener?} {the_patient} underwent {procedure} {when} without complications .",
    "{procedure} was performed by Dr [Person {name} ] {when} .",
    "{he} lives alone in [Place {name} ] , and {his} {relative} , [Person {name} ] , visits {him} once a week .",
    "{he} moved here from [Place {name} ] in {year} and works as a {job} for [Organization {name} ] .",
    "{he} works as a {job} for [Organization {name} ] but stayed at home {when} because of {finding} .",
    "the {anatomy} was examined {when} and found normal .",
    "an ice pack was placed on the {anatomy} because of the {finding} .",
    "a swab was taken from the {anatomy} , and {drug} {dose} was begun .",
    "{finding} resolved within {2-9} days of stopping {drug} .",
    "{he} takes {drug} {dose} {often} and {drug} {dose} at night .",
    "we increased the dose of {drug} from {5-20} to {25-80} mg {when} .",
    "{the_patient} was discharged home on {drug} and will see Dr [Person {name} ] in {2-9} weeks .",
    "{he} has a history of {finding} , treated with {procedure} in {year} .",
    "consent for {procedure} was obtained from {his} {relative} , {person} .",
    "{opener?} {he} was referred to the {clinic} for {procedure} .",
    "testing {when} showed a mutation in [Gene {code} ] , and {drug} was prescribed .",
    "the {name} catheter was removed {when} , and {drug} {dose} was given {reason?} .",
    "{his} {name} score rose to {4-19} {when} , and {procedure} was planned .",
)

_DEEP = (
    "{opener?} {the_patient} complained of {local} {when?} .",
    "{opener?} {he} described {local} and was given {drug} {dose} .",
    "{scan} {when} showed no cause for the {finding} .",
    "{scan} was arranged {when} because of {local} .",
    "{local} improved on {drug} {dose} {often} .",
    "{the_patient} was transferred from {hospital} {when} for {procedure} .",
    "Dr [Person {name} ] of {hospital} advised {scan} before surgery .",
    "{he} was referred to the [Organization [Organization [Place {name} ] University ] Department of {specialty} ] "
    "{when} .",
    "{opener?} {drug} was replaced by a [Drug [Protein {code} ] inhibitor ] {reason?} .",
    "{he} was treated at the [Organization [Person {first} {name} ] Memorial Hospital ] for {local} .",
    "{the_patient} reports [Finding {grade} {sensation} in the {anatomy} {trouble} ] .",
    "Dr [Person {name} ] performed [Procedure open reduction and internal fixation of the [Finding displaced "
    "fracture of the {bone} ] with {few} screws ] {when} .",
)

_BROKEN = (
    "{opener?} {the_patient} reported [1,2:Finding {grade?} {sensation} in the ] [1:Finding {lateral} ] and "
    "{aside?} [2:Finding [Anatomy {paired} ] ] .",
    "there was [1,2:Finding swelling of both ] [1:Finding [Anatomy {pair} ] ] and {aside?} [2:Finding [Anatomy "
    "{pair} ] ] {when?} .",
    "{he} has [1,2:Finding {grade} ] [1:Finding [Anatomy {tissue} ] ] and [2:Finding [Anatomy {tissue} ] ] "
    "[1,2:Finding {ache} ] despite {drug} .",
    "{drug} was followed by [1,2,3:Finding {grade} ] [1:Finding [Anatomy {tissue} ] ] , [2:Finding [Anatomy "
    "{tissue} ] ] and [3:Finding [Anatomy {tissue} ] ] [1,2,3:Finding {ache} ] .",
    "{opener?} {he} complained of [1:Finding {grade?} {sensation} ] , {onset} , [1:Finding in the {anatomy} ] .",
    "{the_patient} described [1:Finding {sensation} ] and [2:Finding {sensation} ] [1,2:Finding in the {anatomy} ] "
    "{when} .",
    "Dr [Person {name} ] ordered [1,2:Procedure {imaging} of the ] [1:Procedure {lateral} ] and [2:Procedure "
    "[Anatomy {middle} ] ] {when?} .",
    "{he} was given {drug} for [1:Finding {sensation} ] , {onset} , [1:Finding in the {anatomy} ] .",
)

_PLAIN = (
    "vital signs were stable , with a pulse of {58-99} and a temperature of 36.{1-9} .",
    "blood pressure was {105-149} over {62-94} {when} .",
    "{he} slept well , ate breakfast and walked {20-90} metres with help .",
    "{he} smoked {5-30} cigarettes a day until {year} .",
    "{the_patient} weighs {48-110} kg and is {150-195} cm tall .",
    "the next visit is planned for {month} {1-28} at {8-11}.{10-50} .",
    "a {name} catheter of size {10-24} was used throughout .",
    "{his} {name} score was {2-15} on arrival and {2-15} at discharge .",
    "on the other hand , {he} was able to climb {10-60} steps .",
    "bed {1-60} on ward {code} was free by {weekday} .",
    "the results of {month} {1-28} were filed under number {1000-9999} .",
)

_RULES["plain_list"] = (
    "[Finding {symptom} ] , [Finding {symptom} ] or [Finding {symptom} ]",
    "[Finding {symptom} ] and [Finding {symptom} ]",
)

CLINICAL = Domain("clinical", _OPENINGS, _FLAT, _DEEP, _BROKEN, _PLAIN, {**EVERYDAY, **_RULES})

PATIENTS: tuple[dict[str, str], ...] = (
    {"he": "he", "his": "his", "him": "him", "man": "man", "the_patient": "the patient"},
    {"he": "she", "his": "her", "him": "her", "man": "woman", "the_patient": "the patient"},
)
