"""512 common English words: with the space before them, one token each in nearly every byte-level BPE vocabulary."""

from __future__ import annotations

_TEXT = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which you
one we all were her she there would their him been has when who will more no if out so what up its about into than
them can only other new some could time these two may then do first any my now such like our over man me even most
made after also did many before must through back years where much your way well down should because each just those
people how too little state good very make world still own see men work long get here between both life being under
never day same another know while last might us great old year off come since against go came right used take three
states himself few house use during without again place ocean around however home small found thought went say part
once general high upon school every does got united left number course train until always away something fact though
water less public put think almost hand enough far took head yet government system better set told nothing night end
why called eyes find going look asked later knew point next program city business give group toward young days let
room president side social given present several order national possible rather second face per among form important
often things looked early white case large big need best four within felt along children saw church ever least power
development light thing seemed family interest want members mind country area others done turned although open
service certain kind problem began different door thus help means sense whole matter line law action human free
local century history act half question body together level value book company past run taken having already words
feel silver garden money change show office making word study party feet art age table music car air real cost land
stand field full figure true father mother sound force support center surface longer strong short major moment clear
common reason idea able street market total main position private hard month simple close class record job red view
bridge hope deep paper girl boy color plan south north west east game letter space size moving hour doing rate sent
read special heart type nature growth board care island hold outside trade peace list answer fire ground union ready
bring stage living black single top data final basic production effect natural direct evidence return evening
morning fall summer winter spring window horse stone river road green blue hair glass wall floor ship tree food bed
bank test love leave play move speak turn walk talk keep hear stop start live meet pay lead learn write draw build
grow send wait watch follow reach remain allow add spend raise pass sell require report decide pull break cut rest
serve join save worth wide dark bad cold hot low poor rich safe warm soft fast late near nice easy happy gold sure
"""

WORDS = tuple(_TEXT.split())
