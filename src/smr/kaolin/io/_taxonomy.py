"""The categories of ShapeNetCore: numbers of WordNet's synsets, and their names."""

from __future__ import annotations

from collections.abc import Sequence

LABELS: dict[str, list[str]] = {
    number: names.split(",")
    for number, names in (
        line.split(" ", 1)
        for line in """\
02691156 airplane,aeroplane,plane
02747177 ashcan,trash can,garbage can,wastebin,ash bin,ash-bin,ashbin,dustbin,trash barrel,trash bin
02773838 bag,traveling bag,travelling bag,grip,suitcase
02801938 basket,handbasket
02808440 bathtub,bathing tub,bath,tub
02818832 bed
02828884 bench
02834778 bicycle,bike,wheel,cycle
02843684 birdhouse
02858304 boat
02871439 bookshelf
02876657 bottle
02880940 bowl
02924116 bus,autobus,coach,charabanc,double-decker,jitney,motorbus,motorcoach,omnibus,passenger vehicle
02933112 cabinet
02942699 camera,photographic camera
02946921 can,tin,tin can
02954340 cap
02958343 car,auto,automobile,machine,motorcar
02992529 cellphone,cellular telephone,cellular phone,cell,mobile phone
03001627 chair
03046257 clock
03085013 computer keyboard,keypad
03207941 dishwasher,dish washer,dishwashing machine
03211117 display,video display
03261776 earphone,earpiece,headphone,phone
03325088 faucet,spigot
03337140 file,file cabinet,filing cabinet
03467517 guitar
03513137 helmet
03593526 jar
03624134 knife
03636649 lamp
03642806 laptop,laptop computer
03691459 loudspeaker,speaker,speaker unit,loudspeaker system,speaker system
03710193 mailbox,letter box
03759954 microphone,mike
03761084 microwave,microwave oven
03790512 motorcycle,bike
03797390 mug
03928116 piano,pianoforte,forte-piano
03938244 pillow
03948459 pistol,handgun,side arm,shooting iron
03991062 pot,flowerpot
04004475 printer,printing machine
04074963 remote control,remote
04090263 rifle
04099429 rocket,projectile
04225987 skateboard
04256520 sofa,couch,lounge
04330267 stove
04379243 table
04401088 telephone,phone,telephone set
04460130 tower
04468005 train,railroad train
04530566 vessel,watercraft
04554684 washer,automatic washer,washing machine""".splitlines()
    )
}
"""Names of each category, the first the common one."""


def synsets_of(categories: Sequence[str] | None) -> list[str]:
    """The numbers of categories that are given by number or by name; None: of all.

    Raises:
        ValueError: There is no such category.
    """
    found = []
    for name in LABELS if categories is None else categories:
        match = name if name in LABELS else next((key for key, names in LABELS.items() if name in names), None)
        if match is None:
            common = ", ".join(names[0] for names in LABELS.values())
            raise ValueError(f"there is no category {name!r}; there are {common}")
        found.append(match)
    return found
