package steps

const ReasonAnnounce = "AnnouncingServers"

const ReasonWithdraw = "WithdrawingServices"

const ReasonCountLoad = "CountingLoad"

const ReasonMoveSlots = "MovingSlots"

const ReasonCloseSlots = "ClosingSlots"

const ReasonDropShard = "DroppingShard"

const ReasonResize = "ResizingPods"
