"""News.

One surname may be a person (who speaks, scores, is elected), a town (in, from, to, its residents),
a company (shares, jobs, profits, makers) or a drug (approved, prescribed); storms, ferries, prizes
and racehorses bear names too, and are none of these. Titles and offices belong to no entity.
"""

from __future__ import annotations

from spanloom.samples.everyday import EVERYDAY, words
from spanloom.samples.grammar import Domain

_RULES: dict[str, tuple[str, ...]] = {
    "place": ("[Place {name} ]",),
    "company": ("[Organization {name} ]", "[Organization {name} ]", "[Organization {name} {business} ]"),
    "business": words("Foods Holdings Motors Airways Bank Energy Textiles Steel Insurance Shipping Records"),
    "goods": words(
        "tyres bicycles washing_machines garden_tools railway_carriages toys batteries office_chairs paints "
        "solar_panels shoes biscuits"
    ),
    "job": words("teacher nurse farmer plumber librarian baker sculptor violinist fisherman beekeeper carpenter pilot"),
    "prize": (
        "a gardening prize",
        "the regional chess title",
        "a seat on the jury",
        "the marathon",
        "a cookery contest",
    ),
    "title": ("Mr", "Ms", "Mrs"),
    "said": ("told reporters", "said in an interview", "said through a lawyer", "told a radio station"),
    "claim": (
        "that the talks would go on",
        "that there was no cause for alarm",
        "that the vote had been fair",
        "that the money had been well spent",
        "that nobody had been consulted",
        "that the plan came too late",
    ),
    "day": ("on {weekday}", "on {month} {1-28}", "late on {weekday}", "early on {weekday}"),
    "deed": (
        "who chairs the inquiry ,",
        "who wrote the report ,",
        "who retired {day} ,",
        "who has led the party since {1998-2024} ,",
        "a former {job} ,",
    ),
    "aside": (", more recently ,", ", it seems ,", ", later on ,"),
    "effect": words(
        "nausea dizziness fainting headache blurred_vision palpitations rashes hair_loss liver_failure "
        "insomnia vomiting hallucinations tremor fever memory_loss swelling cramps kidney_failure drowsiness "
        "low_blood_pressure"
    ),
    "side_effect": ("[Finding {effect} ]", "[Finding {severity} {effect} ]"),
    "post": ("who chairs the inquiry ,", "who has led the party since {1998-2024} ,", "the minister for {office} ,"),
    "link": ("meanwhile ,", "in another case ,", "for the second time this year ,", "despite the rain ,"),
    "illness": words(
        "measles cholera malaria influenza food_poisoning heatstroke asthma diabetes migraine arthritis "
        "obesity tuberculosis hay_fever pneumonia typhoid whooping_cough scarlet_fever rabies scurvy "
        "hypothermia insomnia dehydration smoke_inhalation frostbite meningitis"
    ),
    "severity": words("severe mild suspected acute untreated recurrent"),
    "finding": ("[Finding {illness} ]", "[Finding {severity} {illness} ]", "[Finding {severity} {illness} ]"),
    "drug": ("[Drug {name} ]", "[Drug {name} ]", "[Drug {generic} ]"),
    "civic": (
        "University",
        "City Council",
        "Police",
        "Airport",
        "Chamber of Commerce",
        "Symphony Orchestra",
        "Museum of Art",
    ),
    "body": ("[Organization [Place {name} ] {civic} ]", "the [Organization [Person {first} {name} ] Foundation ]"),
    "school": tuple(
        f"[Organization [Place {{name}} ] {kind} ]" for kind in ("University", "Music Academy", "Art College")
    ),
    "subject": ("Economics", "Biology", "Modern History", "Architecture", "Engineering", "Law"),
    "quarter": words(
        "old_harbour northern_suburbs market_square industrial_district western_outskirts city_centre cathedral_quarter"
    ),
    "panel": ("Standing Committee", "Advisory Board", "Joint Commission", "Select Committee"),
    "remit": (
        "on Rural Transport and Public Health",
        "on Housing , Schools and Road Safety",
        "for the Protection of Rivers and Lakes",
        "on Fair Wages and Working Hours",
    ),
    "office": ("health", "education", "transport", "housing", "fire", "parks", "planning", "water", "tourism"),
}

_OPENINGS = (
    "police in {place} arrested {few} people {day} after a fight at the railway station .",
    "shares of {company} fell {2-19} percent {day} .",
    "residents of {place} were told to boil their water after floods closed the road to {place} .",
    "{person} , {25-84} , a {job} from {place} , has won {prize} .",
    "{title} [Person {name} ] , {post} will stand down {day} .",
)

_FLAT = (
    "{company} , the maker of {goods} , will cut {20-900} jobs in {place} .",
    "{link?} [Person {name} ] , {deed} {said} {claim} .",
    "profit at {company} rose {2-60} percent on sales of {goods} .",
    "{title} [Person {name} ] {said} {claim} .",
    "{company} reported a loss of {2-95} million for the quarter .",
    "{place} , a town of {2-90},000 people , has had no doctor since {month} .",
    "Judge [Person {name} ] dismissed the complaint against {company} {day} .",
    "the board of {company} named {person} as chief executive {day} .",
    "storm {name} reached {place} {day} and cut power to {200-900} homes .",
    "the ferry {name} sailed from {place} with {40-380} passengers on board .",
    "[Person {name} ] scored {few} goals in the final , played in {place} {day} .",
    "flights from {place} to {place} were cancelled {day} .",
    "Mayor [Person {name} ] opened a new school in {place} {day} .",
    "{person} was elected to parliament with {34-71} percent of the vote .",
    "{link?} doctors in {place} treated {12-240} people for {finding} .",
    "according to [Person {name} ] , a spokeswoman for {company} , the {goods} were never sold .",
    "{place} 's mayor , {person} , {said} {claim} .",
    "regulators approved {drug} for the treatment of {finding} {day} .",
    "{company} stopped selling {drug} {day} after reports of {side_effect} .",
    "the {name} prize went to {person} , a {job} from {place} .",
    "{name} , a two-year-old colt , won the main race in {place} {day} .",
    "patients who had been prescribed {drug} by Dr [Person {name} ] are asked to call their clinic .",
    "a court in {place} sentenced {person} to {few} years in prison .",
    "{company} , the maker of {goods} , hired {20-900} engineers in {place} {day} .",
)

_DEEP = (
    "{person} , who teaches {subject} at {school} , {said} {claim} .",
    "{body} will move to the [Place {quarter} of {place} ] {day} .",
    "the [Organization [Organization {place} University ] Department of {subject} ] has appointed {person} .",
    "a fire broke out in the [Place {quarter} of {place} ] {day} .",
    "{title} [Person {name} ] gave {2-95} million to {body} {day} .",
    "{link?} {body} has ordered {goods} from {company} .",
    "the [Organization {panel} {remit} of the [Organization [Place {name} ] City Council ] ] met {day} .",
    "[Person {name} ] , who chairs the [Organization {panel} {remit} of the [Organization [Place {name} ] Chamber "
    "of Commerce ] ] , {said} {claim} .",
    "{body} bought {few} buildings in the [Place {quarter} of {place} ] {day} .",
    "the [Organization [Place {name} ] branch of the [Organization [Person {first} {name} ] Foundation ] ] will "
    "close {day} .",
)

_BROKEN = (
    "[1:Person {first} ] and [2:Person {first} ] [1,2:Person {name} ] opened a bakery in {place} {day} .",
    "the [1:Organization {place} ] and [2:Organization {place} ] [1,2:Organization City Councils ] met {day} .",
    "the [1,2:Organization universities of ] [1:Organization {place} ] and {aside?} [2:Organization {place} ] have "
    "cut ties with {company} .",
    "the [1,2:Organization {place} ] [1:Organization {office} ] and [2:Organization {office} ] [1,2:Organization "
    "departments ] will share a building .",
    "the [1,2,3:Organization {place} ] [1:Organization {office} ] , [2:Organization {office} ] and [3:Organization "
    "{office} ] [1,2,3:Organization departments ] hired {20-90} people {day} .",
    "[1:Person {first} ] , {first_born} , and [2:Person {first} ] [1,2:Person {name} ] {said} {claim} .",
)

_PLAIN = (
    "rain is expected {day} , with highs of {12-31} degrees .",
    "the index closed at {1000-9900} points {day} , up {2-90} points .",
    "storm {name} weakened over the sea {day} .",
    "the yacht {name} finished second in {11-60} hours .",
    "tickets cost between {5-19} and {20-90} euros .",
    "a depression to the north will bring winds of {50-120} km an hour {day} .",
    "the dispute goes to the heart of a law passed in {1948-2022} .",
    "talks broke down {day} after {few} hours .",
    "at the foot of the hill stands an inn with {4-60} rooms .",
    "by a stroke of luck , nobody was in the building {day} .",
    "the {name} prize is worth {10-90},000 euros .",
    "about {20-90} percent of voters turned out {day} .",
    "house prices rose by {2-9}.{1-9} percent in the year to {month} .",
)

_RULES["first_born"] = ("the elder of the two", "{few} minutes older")

NEWS = Domain("news", _OPENINGS, _FLAT, _DEEP, _BROKEN, _PLAIN, {**EVERYDAY, **_RULES})
